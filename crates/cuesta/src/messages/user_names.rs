//! Users and groups by name and by number, as this machine knows them.

use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

/// Room for all that is known of one user.
const RECORD_BYTES: usize = 64 << 10;

/// The number of a user that is given by name, or by number.
pub fn number(user: &str) -> Option<u32> {
    let name = CString::new(user).ok()?;
    // SAFETY: the name is NUL-terminated; the rest is as `look_up` has it.
    let found = look_up(|record: *mut libc::passwd, buffer, found| unsafe {
        libc::getpwnam_r(name.as_ptr(), record, buffer.as_mut_ptr().cast(), buffer.len(), found)
    });
    found.map(|(uid, _)| uid).or_else(|| user.parse().ok())
}

/// The name of a user; of one that has none, the number.
pub fn name(uid: u32) -> String {
    // SAFETY: as `look_up` has it.
    let found = look_up(|record: *mut libc::passwd, buffer, found| unsafe {
        libc::getpwuid_r(uid, record, buffer.as_mut_ptr().cast(), buffer.len(), found)
    });
    found.map_or_else(|| uid.to_string(), |(_, name)| name)
}

/// The name of a user and the group it logs in with, if it has a name.
pub fn login(uid: u32) -> Option<(String, u32)> {
    let mut record = MaybeUninit::<libc::passwd>::uninit();
    let mut buffer: Vec<c_char> = vec![0; RECORD_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: all that is written to is there, and as long as is said.
    let status = unsafe {
        libc::getpwuid_r(uid, record.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
    };
    if status != 0 || found.is_null() {
        return None;
    }
    // SAFETY: it was found, so the record is filled, and its name is a string in the buffer, which still lives.
    let (name, group) = unsafe {
        let record = record.assume_init();
        (CStr::from_ptr(record.pw_name), record.pw_gid)
    };
    Some((name.to_str().ok()?.to_owned(), group))
}

/// The number of a group that is given by name, or by number.
pub fn group_number(group: &str) -> Option<u32> {
    let name = CString::new(group).ok()?;
    // SAFETY: the name is NUL-terminated; the rest is as `look_up` has it.
    let found = look_up(|record: *mut libc::group, buffer, found| unsafe {
        libc::getgrnam_r(name.as_ptr(), record, buffer.as_mut_ptr().cast(), buffer.len(), found)
    });
    found.map(|(gid, _)| gid).or_else(|| group.parse().ok())
}

/// The name of a group; of one that has none, the number.
pub fn group_name(gid: u32) -> String {
    // SAFETY: as `look_up` has it.
    let found = look_up(|record: *mut libc::group, buffer, found| unsafe {
        libc::getgrgid_r(gid, record, buffer.as_mut_ptr().cast(), buffer.len(), found)
    });
    found.map_or_else(|| gid.to_string(), |(_, name)| name)
}

/// What libc knows of a user or a group.
trait Record {
    fn number(&self) -> u32;
    fn name(&self) -> *const c_char;
}

impl Record for libc::passwd {
    fn number(&self) -> u32 {
        self.pw_uid
    }

    fn name(&self) -> *const c_char {
        self.pw_name
    }
}

impl Record for libc::group {
    fn number(&self) -> u32 {
        self.gr_gid
    }

    fn name(&self) -> *const c_char {
        self.gr_name
    }
}

/// Asks for a user or a group by `ask`, which is handed a record, a buffer for what that points to, and where to say
/// whether it found one.
fn look_up<R: Record>(ask: impl FnOnce(*mut R, &mut [u8], *mut *mut R) -> i32) -> Option<(u32, String)> {
    let mut record = MaybeUninit::<R>::uninit();
    let mut buffer = vec![0; RECORD_BYTES];
    let mut found = ptr::null_mut();
    if ask(record.as_mut_ptr(), &mut buffer, &raw mut found) != 0 || found.is_null() {
        return None;
    }
    // SAFETY: it was found, so the record is filled, and its name is a string in the buffer, which still lives.
    let (number, name) = unsafe {
        let record = record.assume_init();
        (record.number(), CStr::from_ptr(record.name()))
    };
    Some((number, name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_have_names_and_numbers() {
        assert_eq!((group_number("root"), group_name(0)), (Some(0), "root".to_owned()));
        assert_eq!(group_number("no such group"), None);
        assert_eq!((number("root"), name(0)), (Some(0), "root".to_owned()));
        assert_eq!(
            (number("3999999999"), name(3_999_999_999)),
            (Some(3_999_999_999), "3999999999".to_owned())
        );
        assert_eq!((number("no such user"), number("-1"), number("")), (None, None, None));
    }
}
