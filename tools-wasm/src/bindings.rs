//! The import `ikigai:tool/workspace`, over the descriptors of the `wasip2` crate.
//!
//! Only a component that calls it imports it.

wit_bindgen::generate!({
    path: "../wit",
    inline: "
        package ikigai:guest;
        world replacing {
            import ikigai:tool/workspace@0.1.0;
        }
    ",
    world: "ikigai:guest/replacing",
    with: {
        "ikigai:tool/workspace@0.1.0": generate,
        "wasi:clocks/wall-clock@0.2.12": wasip2::clocks::wall_clock,
        "wasi:filesystem/types@0.2.12": wasip2::filesystem::types,
        "wasi:io/error@0.2.12": wasip2::io::error,
        "wasi:io/poll@0.2.12": wasip2::io::poll,
        "wasi:io/streams@0.2.12": wasip2::io::streams,
    },
});
