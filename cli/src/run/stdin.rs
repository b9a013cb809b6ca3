//! How the command's stdin goes from process to process: over the socket that is the next one's own stdin.

use std::io::{Error, IoSlice, IoSliceMut, Result as IoResult};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Gives it to the process at the other end.
pub fn give(to: &UnixStream, stdin: impl AsFd) -> IoResult<()> {
    let files = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(to, &[IoSlice::new(b"i")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Waits for it. The socket that it comes by is this process's own.
pub fn take() -> IoResult<(OwnedFd, UnixStream)> {
    let way = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    recvmsg(&way, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let file = files.next().ok_or_else(|| Error::other("this is started by `lockson run` alone"))?;
    Ok((file, UnixStream::from(way)))
}
