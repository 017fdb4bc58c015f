//! ListTasks over several endpoints (A2A 1.0 §3.1.4): what a caller asks for, what an endpoint is asked for, one endpoint's
//! page taken apart, and the page that the caller gets.
//!
//! Tasks stay the bytes that their endpoint wrote: a page is taken apart into ranges and put together from slices. Both
//! directions are read strictly, other than an answer that passes whole: what is put together must read the same to
//! everybody, and the ids decide what a caller may see. What is around the tasks (`result` itself) is written anew, so that
//! members of it that no version of A2A has are left out: of several endpoints' values none would be right.

mod page;
mod params;
mod stamp;
#[cfg(test)]
mod tests;

pub use page::{Listed, Page, PageError, read_page, write_page};
pub use params::{Listing, ListingError, MOST_TASKS, read_listing};
pub use stamp::Stamp;
