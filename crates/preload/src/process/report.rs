//! One line to the user, on standard error.

use crate::descriptors;
use crate::process::attached;
use crate::process::plain_report::write_to_kernels;

/// Writes one line to standard error, past the application's buffers.
pub fn report(message: std::fmt::Arguments<'_>) {
    let line = format!("cuesta: {message}\n");
    let of_store = descriptors::pin(libc::STDERR_FILENO).and_then(|pin| {
        let client = attached()?;
        pin.with_offset(|file| Ok(client.write(file, &[line.as_bytes().into()])?)).ok()
    });
    if of_store.is_none() {
        write_to_kernels(&line);
    }
}
