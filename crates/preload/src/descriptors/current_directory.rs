//! Where the program is in the store.

use crate::descriptors::Pin;

/// Where the program is in the store.
#[derive(Clone, Debug)]
pub struct Current {
    pub(crate) directory: Pin,
    pub(crate) name: Vec<u8>,
}
