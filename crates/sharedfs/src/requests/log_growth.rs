//! A session's log grows by segments: spare ones, or new ones.

use super::trouble::{Trouble, invalid};
use crate::sessions::{Segment, copies, offsets, remove_segment};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::SessionId;
use cuesta_format::event::Step;
use cuesta_format::wire::{DESCRIPTORS_MAX, Refusal, Response};
use cuesta_media::Node;
use std::os::fd::OwnedFd;

/// Most segments made for one request: each takes a millisecond, for which an operation of the session waits. It asks again with its next
/// one. Spare segments are not counted.
const SEGMENTS_MADE_MAX: u32 = 2;

impl SharedFs {
    /// Gives the session more segments, as many as can be had and sent, behind the `have` it has mapped. The table
    /// knows them before it does. Segments granted before that did not reach it are sent again, and only they.
    pub(super) fn grow_log(
        &self,
        session: SessionId,
        have: u32,
        slots: u32,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        let (granted, missing) = self.with_session(session, |found| {
            let missing = found.segments.get(have as usize..).unwrap_or_default();
            (found.segments.len(), missing[..missing.len().min(DESCRIPTORS_MAX)].to_vec())
        })?;
        if !missing.is_empty() {
            descriptors.extend(copies(&missing)?);
            return Ok(Response::Grown { offsets: offsets(&missing) });
        }
        if granted != have as usize {
            return Err(invalid("more slots mapped than granted"));
        }
        let wanted = slots.min(self.geometry().ring_slots) as usize;
        let wanted = wanted.saturating_sub(granted).min(DESCRIPTORS_MAX);
        let node = self.look_for_node(session)?;
        let added = match self.find_segments(wanted, node) {
            // Fewer segments make a shorter log, not an error.
            (added, None) => added,
            (added, Some(_)) if !added.is_empty() || granted >= 2 => added,
            (_, Some(error)) => return Err(error.into()),
        };
        if added.is_empty() {
            return Ok(Response::Grown { offsets: Vec::new() });
        }
        let slots = match self.add_segments(session, granted, &added, descriptors) {
            Ok(slots) => slots,
            Err(trouble) => {
                let mut core = self.core.lock();
                added.iter().for_each(|segment| core.pool.add(segment));
                return Err(trouble);
            }
        };
        self.events.record(Step::Grow { session, slots });
        Ok(Response::Grown { offsets: offsets(&added) })
    }

    /// The memory node the session's process runs on now, if the machine has several.
    fn look_for_node(&self, session: SessionId) -> Result<Option<Node>, Trouble> {
        if !self.nodes.are_several() {
            return Ok(None);
        }
        let pid = self.with_session(session, |found| found.pid)?;
        let node = self.nodes.of_process(pid);
        self.with_session(session, |found| found.node = node)?;
        Ok(node)
    }

    /// Up to `wanted` unused segments, on `node` if they can be had there, and the error that kept them from
    /// being more.
    pub(crate) fn find_segments(&self, wanted: usize, node: Option<Node>) -> (Vec<Segment>, Option<Error>) {
        let mut found = Vec::with_capacity(wanted);
        let mut made = 0;
        let mut has_room = true;
        while found.len() < wanted {
            let mut core = self.core.lock();
            let segment = match core.pool.take_spare(node, has_room) {
                Some(segment) => segment,
                None if made == SEGMENTS_MADE_MAX => break,
                None => {
                    made += 1;
                    let id = core.pool.next_id();
                    let surplus = core.pool.take_surplus(node, self.spare_segments_kept());
                    // It takes its time: no other request waits meanwhile.
                    drop(core);
                    if let Some(surplus) = surplus
                        && let Err(error) = remove_segment(&self.parts, surplus)
                    {
                        return (found, Some(error));
                    }
                    match self.make_segment(id, node) {
                        // There may be some of another node.
                        Err(Error::NoSpace) if node.is_some() && has_room => {
                            has_room = false;
                            continue;
                        }
                        made => made,
                    }
                }
            };
            match segment {
                Ok(segment) => found.push(segment),
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    /// Makes segments the session's, behind the `granted` ones it has. Answers how many slots it has then.
    fn add_segments(
        &self,
        session: SessionId,
        granted: usize,
        added: &[Segment],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<u32, Trouble> {
        let files = copies(added)?;
        let mut core = self.core.lock();
        let Core { sessions, table, .. } = &mut *core;
        let found = sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        if found.segments.len() != granted {
            return Err(invalid("the log grows already"));
        }
        found.record.segments.extend(added.iter().map(|segment| segment.id));
        if let Err(error) = table.write(found.slot, &found.record) {
            found.record.segments.truncate(granted);
            return Err(error.into());
        }
        found.segments.extend_from_slice(added);
        let slots = found.segments.len() as u32;
        found.control.publish_slots(slots);
        descriptors.extend(files);
        Ok(slots)
    }
}
