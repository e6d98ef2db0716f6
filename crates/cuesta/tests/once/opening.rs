//! Files that are opened just as the daemon dies: the next daemon is shown the files that the process has, before the thread that opened this
//! one has noted it.

use super::{Daemons, Open, Replace};
use cuesta_libfs::Resolve;
use cuesta_served::{PathBase as Base, Subject};
use std::sync::Arc;

#[test]
fn a_file_that_was_opened_just_before_the_daemon_died_is_written_by_the_next_one() {
    let Some(daemons) = Daemons::new() else { return };
    daemons.as_nobody(|replacing| {
        for calls_before in [0, 40] {
            // Few calls are asked by the socket, more by a ring.
            let served = daemons.client();
            let root = Subject::Path { place: Base::Root, path: b".", follow: true };
            for _ in 0..calls_before {
                served.client.stat(root).unwrap();
            }
            let (path, flags) = (format!("file-{calls_before}"), libc::O_CREAT | libc::O_RDWR);
            let opened =
                served.client.open(Base::Root, path.as_bytes(), flags, 0o644.into(), Resolve::default());
            let (file, token) = opened.unwrap();
            replacing.begin(Replace::Kill(None)).recv().unwrap();
            served.client.stat(root).unwrap();
            let open = Arc::new(Open { file, token });
            served.open.lock().unwrap().push(Arc::clone(&open));
            assert_eq!(served.write(&open, b"content", Some(0), false), Ok(7), "{calls_before} calls before");
            served.close(open).unwrap();
            assert_eq!(served.read(path.as_bytes()), b"content");
        }
    });
}
