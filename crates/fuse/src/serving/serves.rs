//! What does what the kernel asks for: the door, or something simpler beside which it is measured.

use crate::kernel::answer::Answer;
use crate::kernel::device::Device;
use crate::kernel::request::Request;
use std::sync::Arc;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is put together.
    Answered,
    /// It failed with an error number.
    Refused(i32),
    /// There is no answer, or it comes from elsewhere.
    Silent,
}

/// Serves requests, many at once.
pub trait Serves: Send + Sync + 'static {
    /// Performs the request. Its answer is put into `answer`, which is empty, or written to `device`, now or later.
    fn serve(&self, request: Request<'_>, answer: &mut Answer, device: &Arc<Device>) -> Outcome;

    /// The mount is gone, and no thread serves it any more.
    fn end(&self) {}
}
