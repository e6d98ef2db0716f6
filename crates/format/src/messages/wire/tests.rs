use super::*;

#[test]
fn a_message_survives_its_frame() {
    let request = Request::Lookup { parent: InodeNumber(1), name: b"caf\xe9".to_vec() };
    let mut frame = vec![9];
    encode(&request, &mut frame).unwrap();
    let length = frame_length(frame[1..5].try_into().unwrap()).unwrap();
    assert_eq!(length, frame.len() - 5);
    assert_eq!(decode::<Request>(&frame[5..]), Ok(request));
    assert!(decode::<Request>(&frame[5..frame.len() - 1]).is_err());
    let too_long = PROTOCOL_VERSION << frame::VERSION_SHIFT | (FRAME_BYTES_MAX as u32 + 1);
    assert_eq!(frame_length(too_long.to_le_bytes()), Err(WireError::Length(FRAME_BYTES_MAX + 1)));
    frame[4] ^= 1;
    let other = PROTOCOL_VERSION ^ 1;
    assert_eq!(frame_length(frame[1..5].try_into().unwrap()), Err(WireError::Version(other)));
}

#[test]
fn events_travel_in_a_frame() {
    let step = crate::event::Step::Free { blocks: 3 };
    let events = Response::Events(vec![Event { number: 7, time_ns: 9, step }]);
    let mut frame = Vec::new();
    encode(&events, &mut frame).unwrap();
    assert_eq!(decode::<Response>(&frame[4..]), Ok(events));
}
