//! Cutting a file that a path names.

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::store_path::Named;
use crate::calls::paths::{crossing, descriptor_files};

pub fn truncate(call: &Call) -> Answer {
    const NAMED: Named = (None, 0);
    let size = call.word(1) as i64;
    if size < 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let answer = crossing::at(
        call,
        NAMED,
        |client, credentials, base, place| client.truncate(credentials, base, &place.path, size),
        |()| Ok(0),
    );
    match answer {
        Err(Failure::NotOurs) => {
            descriptor_files::truncate(&descriptor_files::itself(call, NAMED.1)?, size).map(|()| 0)
        }
        answer => answer,
    }
}
