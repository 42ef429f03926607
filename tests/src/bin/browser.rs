//! `browser URL` opens a page and follows its redirects, in place of the browser that `ikigai mcp
//! login` starts.

use ikigai_tests::browser::WebPage;

fn main() {
    let url = std::env::args().nth(1).expect("an address");
    WebPage::open(&url);
}
