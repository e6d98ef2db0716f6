//! What this process shows the next daemon of the files that SharedFS had open for it.

use crate::process;
use crate::store::open_files::SERVED;
use crate::users::socket_folder;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{PoisonError, Weak};

/// What this process tells the next daemon when the one it was served by is gone.
#[derive(Debug)]
pub struct Renewal;

impl cuesta_served::Holder for Renewal {
    fn path(&self) -> Vec<u8> {
        process::configuration().map(socket_folder::users_socket).unwrap_or_default()
    }

    fn show(&self, see: &mut dyn FnMut(&cuesta_served::OpenFile, BorrowedFd<'_>)) {
        let files = SERVED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for served in files.iter().filter_map(Weak::upgrade) {
            see(&served.file, served.token.as_fd());
        }
    }
}
