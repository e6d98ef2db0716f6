//! Setting up tests of quotas.

use super::{Caller, Store, root, small};
use cuesta_format::quota::{Amounts, Limited, Limits, Payer, Quota};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, SessionId};
use cuesta_libfs::{Base, Client, Credentials, Error, SetAttributes, Target};
use cuesta_sharedfs::SharedFs;
use libc::{O_CREAT, O_WRONLY};
use std::sync::Arc;

pub const BLOCK: usize = 4096;
pub const ANNA: u32 = 1000;
pub const BERT: u32 = 1001;

/// Sets hard limits of a user, group or directory.
pub fn set(shared: &SharedFs, of: Limited, limits: Option<Amounts>) -> Response {
    set_limits(shared, of, limits.map(Limits::hard))
}

pub fn set_limits(shared: &SharedFs, of: Limited, limits: Option<Limits>) -> Response {
    shared.handle(SessionId::NOBODY, &Request::SetQuota { of, limits }, &mut Vec::new())
}

/// Amounts and limits of all owners, once everything is digested.
pub fn quotas(shared: &SharedFs) -> Vec<Quota> {
    match shared.handle(SessionId::NOBODY, &Request::Quotas, &mut Vec::new()) {
        Response::Quotas(quotas) => quotas,
        other => panic!("{other:?}"),
    }
}

pub fn limit(shared: &SharedFs, uid: u32, blocks: u64, inodes: u64) {
    let limits = Some(Amounts { blocks, inodes });
    assert_eq!(set(shared, Limited::User(uid), limits), Response::Done);
}

/// The amounts that a user owns, once everything is digested.
pub fn owned(shared: &SharedFs, uid: u32) -> Amounts {
    let found = quotas(shared).into_iter().find(|quota| quota.payer == Payer::User(uid));
    found.map_or(Amounts::NONE, |quota| quota.used)
}
pub fn user(client: &Arc<Client>, uid: u32) -> Caller {
    Caller { client: Arc::clone(client), who: Credentials::of_user(uid, uid, Vec::new()) }
}

/// A store whose root every user may write.
pub fn store() -> (Store, Arc<Client>) {
    let store = Store::new(Geometry { nvm_bytes: 64 << 20, ..small() });
    let client = store.attach();
    let caller = root(&client);
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    let at = Target::Path { base: Base::Root, path: b".", follow: true };
    client.set_attributes(&caller.who, at, set).unwrap();
    (store, client)
}

pub fn write(caller: &Caller, path: &str, at: usize, bytes: usize) -> Result<usize, Error> {
    let file = caller.client.open(&caller.who, Base::Root, path.as_bytes(), O_CREAT | O_WRONLY, 0o666)?;
    let mut written = 0;
    let mut answer = Ok(0);
    while written < bytes && answer.is_ok() {
        // So small a log would cut a longer write short.
        let data = vec![7; (bytes - written).min(16 * BLOCK)];
        answer = caller.client.pwrite(&file, &[data.as_slice().into()], (at + written) as i64);
        written += answer.as_ref().unwrap_or(&0);
    }
    caller.client.close(file).unwrap();
    answer.map(|_| written)
}

/// Writes blocks one by one until a write is refused. Answers how many there are then.
pub fn fill(caller: &Caller, path: &str) -> usize {
    let mut blocks = 0;
    loop {
        match write(caller, path, blocks * BLOCK, BLOCK) {
            Ok(BLOCK) => blocks += 1,
            Ok(other) => panic!("{other} bytes"),
            Err(Error::OverQuota) => return blocks,
            Err(error) => panic!("{error}"),
        }
    }
}

pub fn check(store: Store, clients: Vec<Arc<Client>>) {
    for client in clients {
        client.digest().unwrap();
        client.detach();
    }
    let report = store.check();
    assert!(report.is_clean(), "{report:?}");
}
