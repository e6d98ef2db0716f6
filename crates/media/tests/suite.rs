//! Tests of media, as one program: it is linked once, and its tests share the processors to the end.

#[path = "common/medium.rs"]
mod medium;

mod copies;
mod direct;
mod huge_pages;
mod mappings;
mod recording;
