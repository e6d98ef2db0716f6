//! The cache of patched builds.
//!
//! | file | what it has |
//! |---|---|
//! | `sites` | the sites of each build |
//! | `remembered` | where the cache of this process is |
//! | `tidying` | taking away what is not used any more |
//! | `own_file` | a file of this library's own while the program starts |
//!
//! This room does not know how a site is found.

pub(crate) mod own_file;
pub(crate) mod remembered;
pub(crate) mod sites;
pub(crate) mod tidying;
