//! The accept loop.

use super::digester::DigesterHandle;
use super::preparer::PreparerHandle;
use super::service::Service;
use super::{Listener, StopSender, connection};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Address space of a connection's stack; only what is touched costs memory.
const CONNECTION_STACK_BYTES: usize = 512 << 10;

/// How long to wait before accepting again when descriptors or threads have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the socket is shut down.
pub(super) fn start<S: Service>(
    listener: Arc<Listener>,
    service: Arc<S>,
    digester: DigesterHandle,
    preparer: PreparerHandle,
    stop: StopSender,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("accept".into()).spawn(move || {
        loop {
            match rustix::net::accept_with(&listener.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let (service, digester, stop) = (Arc::clone(&service), digester.clone(), stop.clone());
                    let preparer = preparer.clone();
                    let spawned =
                        Builder::new().name("connection".into()).stack_size(CONNECTION_STACK_BYTES).spawn(
                            move || connection::serve(socket, service.as_ref(), &digester, &preparer, &stop),
                        );
                    if let Err(error) = spawned {
                        tracing::error!(%error, "no thread for a connection: it is closed");
                        std::thread::sleep(EXHAUSTED_PAUSE);
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // What Linux answers once the listening socket was shut down.
                Err(Errno::INVAL) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection");
                    std::thread::sleep(EXHAUSTED_PAUSE);
                }
            }
        }
    })
}
