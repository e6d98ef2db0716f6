//! Moving a descriptor of this library out of the application's way.

use crate::call::Failure;
use crate::calls::programs::copies;
use crate::descriptors::kernel::{borrow, set_aside};
use crate::descriptors::{self, cells, working_directory};
use crate::process::session::{MARKER, attached};
use crate::thread::gate;
use crate::users::socket_folder;
use rustix::fd::{AsRawFd as _, IntoRawFd as _};
use std::sync::atomic::Ordering;

/// The descriptors this library uses for itself.
pub fn own_descriptors() -> impl Iterator<Item = i32> {
    descriptors::hidden()
}

/// Moves one of this library's descriptors to another number: the application wants its.
pub fn vacate(fd: i32) -> Result<(), Failure> {
    gate::alone(|| {
        let copy = set_aside(borrow(fd))?;
        let number = copy.as_raw_fd();
        if MARKER.load(Ordering::Relaxed) == fd {
            MARKER.store(copy.into_raw_fd(), Ordering::Release);
        } else if cells::file() == Some(fd) {
            cells::move_file(copy.into_raw_fd());
        } else if socket_folder::get() == Some(fd) {
            socket_folder::take_over(copy.into_raw_fd());
            descriptors::keep_hidden(number);
        } else if has_token(fd, number) {
            let _ = copy.into_raw_fd();
            descriptors::keep_hidden(number);
        } else {
            let old = match attached() {
                Some(client) => client.replace_descriptor(fd, copy),
                None => copy,
            };
            if old.as_raw_fd() != fd && !copies::move_copy(fd, number) {
                return Err(Failure::Errno(libc::EBADF));
            }
            // The number is the application's now, or in use for what it was a copy of.
            let _ = old.into_raw_fd();
        }
        descriptors::hide(fd, false);
        if !descriptors::is_hidden(number) {
            descriptors::hide(number, true);
        }
        Ok(())
    })
}

/// Whether SharedFS knows an open file by the descriptor `fd`: by `number` from now on.
fn has_token(fd: i32, number: i32) -> bool {
    let open = descriptors::all().into_iter().map(|(_, pin)| pin);
    open.chain(working_directory::pin()).any(|pin| pin.move_token(fd, number))
}
