//! The imports of `ikigai:tool`, over the descriptors of the `wasip2` crate.
//!
//! Only a component that calls an import has it.

wit_bindgen::generate!({
    path: "../wit",
    inline: "
        package ikigai:guest;
        world imports {
            import ikigai:tool/assets@0.1.0;
            import ikigai:tool/workspace@0.1.0;
        }
    ",
    world: "ikigai:guest/imports",
    with: {
        "ikigai:tool/assets@0.1.0": generate,
        "ikigai:tool/workspace@0.1.0": generate,
        "wasi:clocks/wall-clock@0.2.12": wasip2::clocks::wall_clock,
        "wasi:filesystem/types@0.2.12": wasip2::filesystem::types,
        "wasi:io/error@0.2.12": wasip2::io::error,
        "wasi:io/poll@0.2.12": wasip2::io::poll,
        "wasi:io/streams@0.2.12": wasip2::io::streams,
    },
});
