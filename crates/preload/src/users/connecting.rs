//! Connections to SharedFS for a process that has no session.

use crate::descriptors::kernel::descriptor_floor;
use crate::process::{Configuration, attached, configuration};
use crate::store::{Client, Renewal};
use crate::users::socket_folder::users_socket;
use cuesta_libfs::Capabilities;
use std::sync::Arc;

/// Has SharedFS serve this process, which may not have a session.
pub fn connect_as_user(configuration: &Configuration) -> Result<cuesta_served::Client, String> {
    // One daemon may be gone, and the next not there yet.
    let connect = || cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor());
    let client = cuesta_libfs::patiently(cuesta_libfs::RESUME_WAIT, connect);
    client.map(|client| client.held_by(Arc::new(Renewal))).map_err(|error| error.to_string())
}

/// The same for a process with these capabilities that can have a session instead: it has one if no daemon listens there now.
pub fn connect_now(
    configuration: &Configuration,
    capabilities: Capabilities,
) -> Option<cuesta_served::Client> {
    let client = cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor()).ok()?;
    Some(client.within(capabilities).ok()?.held_by(Arc::new(Renewal)))
}

/// A connection to SharedFS by which this process asks as the user that it is now, after it has become another.
pub fn bridge() -> Option<cuesta_served::Client> {
    connect_as_user(configuration().ok()?).ok()
}

/// Waits until SharedFS has closed what the last process it served has let go of, if it can be asked.
pub fn settle() {
    let settled = match (attached(), configuration()) {
        (Some(Client::Served(client)), _) => client.settle(),
        (_, Ok(configuration)) => {
            let client = cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor());
            client.and_then(|client| client.settle())
        }
        _ => return,
    };
    // A daemon that cannot be asked closes nothing, or is about to close everything.
    drop(settled);
}
