//! Cached state under leases. All of it is data: nothing here asks SharedFS, and nothing knows the client.
//!
//! | file | idea |
//! |---|---|
//! | `inodes` | the inodes by number, and which of them may be forgotten |
//! | `inode` | an inode and its state |
//! | `file_content` | a file's content: the overlay of its log entries, over extents in arenas |
//! | `interval/` | ranges of a file, each with a value |
//! | `directory_content` | a directory's names |
//! | `split_table` | a hash table that grows in parts |
//! | `extended_set` | an inode's extended attributes |
//! | `access_times` | times of last access that SharedFS has not been told |
//! | `programs` | programs that no process writes |
//! | `version` | whether an inode is still as it was |

pub(crate) mod access_times;
pub(crate) mod directory_content;
pub(crate) mod extended_set;
pub(crate) mod file_content;
pub(crate) mod inode;
pub(crate) mod inodes;
pub(crate) mod interval;
pub(crate) mod programs;
pub(crate) mod split_table;
pub(crate) mod version;
