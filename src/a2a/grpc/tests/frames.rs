//! Messages in streams of bytes.

use bytes::Bytes;

use super::*;

/// All messages of a stream in these pieces, and how it ended.
fn read(most: usize, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Result<bool, FrameError>) {
    let mut frames = Frames::new(most);
    let mut read = Vec::new();
    for piece in pieces {
        frames.push(Bytes::copy_from_slice(piece));
        loop {
            match frames.take() {
                Ok(Some(message)) => read.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(frames.take(), Err(error), "an error stays");
                    return (read, Err(error));
                }
            }
        }
    }
    (read, Ok(frames.has_partial()))
}

fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let all = messages.iter().flat_map(|message| frame(message).unwrap());
    all.collect()
}

#[test]
fn messages_are_read_wherever_a_stream_is_cut() {
    let messages: [&[u8]; 4] = [b"one", b"", b"three3", &[0; 300]];
    let stream = framed(&messages);
    let whole = (messages.map(<[u8]>::to_vec).to_vec(), Ok(false));
    for at in 0..=stream.len() {
        assert_eq!(read(300, &[&stream[..at], &stream[at..]]), whole, "cut at {at}");
        assert_eq!(
            read(300, &[&stream[..at], &[], &stream[at..]]),
            whole,
            "cut at {at}, and an empty piece"
        );
    }
    assert_eq!(read(300, &stream.chunks(1).collect::<Vec<_>>()), whole);
    assert_eq!(read(300, &stream.chunks(7).collect::<Vec<_>>()), whole);
}

#[test]
fn pieces_may_be_given_before_messages_are_taken() {
    let stream = framed(&[b"one", b"two", b"three"]);
    let mut frames = Frames::new(10);
    for piece in stream.chunks(4) {
        frames.push(Bytes::copy_from_slice(piece));
    }
    for message in ["one", "two", "three"] {
        assert_eq!(frames.take(), Ok(Some(Bytes::from(message))));
    }
    assert_eq!(frames.take(), Ok(None));
    assert!(!frames.has_partial());
}

#[test]
fn a_whole_message_is_not_copied() {
    let piece = Bytes::from(framed(&[b"one", b"two"]));
    let mut frames = Frames::new(10);
    frames.push(piece.clone());
    assert_eq!(frames.take().unwrap().unwrap().as_ptr(), piece[5..].as_ptr());
    assert_eq!(frames.take().unwrap().unwrap().as_ptr(), piece[13..].as_ptr());
}

#[test]
fn a_stream_that_ends_within_a_message_is_partial() {
    let stream = framed(&[b"one", b"two"]);
    for at in 0..stream.len() {
        let (messages, partial) = read(3, &[&stream[..at]]);
        assert_eq!(messages.len(), at / 8, "cut at {at}");
        assert_eq!(partial, Ok(at % 8 != 0), "cut at {at}");
    }
}

#[test]
fn messages_are_bounded() {
    assert_eq!(read(3, &[&framed(&[b"one"])]), (vec![b"one".to_vec()], Ok(false)));
    assert_eq!(read(3, &[&framed(&[b"four"])]), (vec![], Err(FrameError::TooLarge)));
    // Refused by its length alone, before any of it is there.
    assert_eq!(read(3, &[&[0, 0, 0, 0, 4]]), (vec![], Err(FrameError::TooLarge)));
    assert_eq!(
        read(3, &[&[0, 0xff, 0xff, 0xff, 0xff]]),
        (vec![], Err(FrameError::TooLarge))
    );
    assert_eq!(read(usize::MAX, &[&[0, 0xff, 0xff, 0xff, 0xff]]), (vec![], Ok(true)));
}

#[test]
fn compressed_messages_are_refused() {
    assert_eq!(read(9, &[&[1, 0, 0, 0, 0]]), (vec![], Err(FrameError::Compressed)));
    assert_eq!(read(9, &[&[1]]), (vec![], Err(FrameError::Compressed)));
    assert_eq!(read(9, &[&[2, 0, 0, 0, 0]]), (vec![], Err(FrameError::Flag)));
    let second = [framed(&[b"one"]), vec![1, 0, 0, 0, 0]].concat();
    assert_eq!(
        read(9, &[&second]),
        (vec![b"one".to_vec()], Err(FrameError::Compressed))
    );
}

#[test]
fn a_call_is_one_message() {
    let check = |body: &[u8], expected: Result<&[u8], FrameError>| {
        let read = only_message(Bytes::copy_from_slice(body), 3);
        assert_eq!(read.as_deref(), expected.as_deref(), "{body:?}");
    };
    check(&framed(&[b"one"]), Ok(b"one"));
    check(&framed(&[b""]), Ok(b""));
    check(b"", Err(FrameError::NotOne));
    check(&framed(&[b"one"])[..7], Err(FrameError::NotOne));
    check(&framed(&[b"one", b"two"]), Err(FrameError::NotOne));
    check(&framed(&[b"four"]), Err(FrameError::TooLarge));
    check(&[1, 0, 0, 0, 0], Err(FrameError::Compressed));
}

proptest! {
    #[test]
    fn any_stream_reads_the_same_in_any_pieces(
        stream in proptest::collection::vec(prop_oneof![Just(0_u8), 0_u8..4, any::<u8>()], 0..60),
        size in 1_usize..20,
    ) {
        let (whole, end) = read(20, &[&stream]);
        let (pieces, end_of_pieces) = read(20, &stream.chunks(size).collect::<Vec<_>>());
        prop_assert_eq!(&whole, &pieces);
        prop_assert_eq!(end, end_of_pieces);
        let held: usize = whole.iter().map(|message| message.len() + PREFIX_BYTES).sum();
        prop_assert!(held <= stream.len());
    }
}
