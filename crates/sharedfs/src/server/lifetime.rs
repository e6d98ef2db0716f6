//! The daemon starts to answer, and stops in order.

use super::accept::Acceptors;
use super::digester::Digester;
use super::listener::Listener;
use super::preparer::Preparer;
use super::service::Service;
use super::stopping::{StopReason, StopSender};
use super::tier_threads::TierThreads;
use super::writer::Writer;
use crate::server::accept;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long `cuesta stop` may take to read its answer before the daemon leaves anyway.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long connections may take to be done with what they are at, when the store was left already.
const LETTING_GO: Duration = Duration::from_secs(5);

/// The running daemon.
#[derive(Debug)]
pub struct Server<S: Service> {
    service: Arc<S>,
    listener: Listener,
    digester: Digester,
    preparer: Preparer,
    writer: Writer,
    tier_threads: TierThreads,
    acceptors: Arc<Acceptors>,
    stop: Receiver<StopReason>,
    stop_sender: StopSender,
}

impl<S: Service> Server<S> {
    /// Starts to answer.
    pub fn start(service: Arc<S>, listener: Listener) -> std::io::Result<Server<S>> {
        let (stop_sender, stop) = mpsc::channel();
        let preparer = Preparer::start(Arc::clone(&service))?;
        let writer = Writer::start(Arc::clone(&service), stop_sender.clone())?;
        let tier_threads = TierThreads::start(&service)?;
        let (prepares, writes) = (preparer.handle(), writer.handle());
        let digester = Digester::start(Arc::clone(&service), prepares, writes, stop_sender.clone())?;
        for (session, process) in service.awaited() {
            digester.handle().watch(session, process.try_clone()?)?;
        }
        let acceptors = accept::start(
            Arc::clone(&listener.socket),
            Arc::clone(&service),
            digester.handle(),
            preparer.handle(),
            stop_sender.clone(),
        )?;
        Ok(Server {
            service,
            listener,
            digester,
            preparer,
            writer,
            tier_threads,
            acceptors,
            stop,
            stop_sender,
        })
    }

    /// For those that may stop the daemon.
    #[must_use]
    pub fn stop_sender(&self) -> StopSender {
        self.stop_sender.clone()
    }

    /// Serves until a request, a signal or a failure stops it. Then it digests every log, closes the store,
    /// hangs up and returns.
    pub fn wait(self) -> StopReason {
        let reason = self.stop.recv().unwrap_or(StopReason::Signal(0));
        tracing::info!(%reason, "stopping");
        // Clients that connect from now on are turned away, and threads that wait for connections wake up.
        let _ = rustix::net::shutdown(&self.listener.socket, rustix::net::Shutdown::Both);
        self.acceptors.wait();
        self.preparer.stop();
        self.digester.stop();
        self.writer.stop();
        self.tier_threads.stop(self.service.as_ref());
        if let Err(error) = self.service.stop() {
            tracing::error!(%error, "not everything was digested: the next start will");
        }
        self.service.leave();
        if let StopReason::Asked(farewell) = &reason
            && farewell.digested.send(()).is_ok()
        {
            // Whether it was answered in time or not, we leave.
            let _ = farewell.answered.recv_timeout(FAREWELL);
        }
        // Further requests to stop are answered: it has.
        drop(self.stop);
        if !self.acceptors.hang_up(LETTING_GO) {
            tracing::warn!("some connections are still at work: their operations count no more");
        }
        tracing::info!("stopped");
        reason
    }
}
