//! What does what the kernel asks for: the door, or something simpler beside which it is measured.

use crate::answer::Answer;
use crate::request::Request;

/// Serves requests, many at once.
pub trait Serves: Send + Sync + 'static {
    /// Does what is asked. Answers how many bytes the answer has, or an error number.
    ///
    /// Without `may_wait` nobody is left to take requests: it must not wait for what another request does.
    fn serve(&self, request: Request<'_>, answer: Answer<'_>, may_wait: bool) -> Result<usize, i32>;

    /// The mount is gone: what waits for other requests ends.
    fn end_waits(&self) {}

    /// Nobody serves any more.
    fn end(&self) {}
}
