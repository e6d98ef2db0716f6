//! temporary
pub mod path;
/// Why a call has no answer of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel decides, as if we were not here.
    NotOurs,
    /// The call failed.
    Errno(i32),
}
/// serve
pub fn serve(number: usize, arguments: [usize; 6]) -> Result<isize, Failure> {
    match number as i64 {
        libc::SYS_rt_sigaction => {
            let [signal, new, old, size, ..] = arguments;
            if size != 8 {
                return Err(Failure::NotOurs);
            }
            let new = if new == 0 { None } else { Some(crate::user_memory::read(new)?) };
            let mut before = crate::signals::Action::default();
            let answer = crate::signals::change_action(signal as i32, new.as_ref(), Some(&mut before));
            if answer == 0 && old != 0 {
                crate::user_memory::write(old, &before)?;
            }
            Ok(answer)
        }
        libc::SYS_io_uring_setup => Err(Failure::Errno(libc::ENOSYS)),
        _ => Err(Failure::NotOurs),
    }
}
