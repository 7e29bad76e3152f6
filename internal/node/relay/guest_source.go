// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// guestSource is a virtual machine in the pod, which connects to a vhost-user socket.
//
// The relay may not create the socket at the path where the machine looks for it. It creates it in its own folder next to that
// path. When it listens, publish sets the owner of the socket and renames it into place, so that the socket of a restarted
// relay replaces the old one atomically.
type guestSource struct {
	// path is where the machine looks for the socket.
	path string
	// link is a packet socket that receives frames for the machine. Frames leave by the tap past ktsnd.
	link *os.File
	tap  *overlay.Tap
	// listens: the socket is at path.
	listens bool
}

// socketName is the name of the socket in the relay's folder.
const socketName = "s"

// maxSocketPath is the length of sun_path in bytes without the terminating zero.
const maxSocketPath = 107

func (g *guestSource) folder() string { return device.SocketFolder(g.path) }

func (g *guestSource) begin(s *Supervisor, a *attachment, with *order) (err error) {
	if len(g.path) > maxSocketPath {
		return fmt.Errorf("%s is too long a path for a socket; choose a shorter folder of sockets (socketDir)", g.path)
	}
	if g.link == nil {
		if g.link, err = packetSocket(a.relayed.Netns, a.relayed.Interface, unix.ETH_P_ALL); err != nil {
			return err
		}
	}
	if err := g.makeTap(s, a); err != nil {
		return err
	}
	program := &s.Programs.Guests
	folder, err := g.makeFolder(program.User)
	if err != nil {
		return err
	}
	with.program = program
	with.pass("--link-fd", g.link)
	with.pass("--past-fd", g.tap.File)
	// The relay may not enter the parent folders.
	with.own(folder)
	inside := fmt.Sprintf("/proc/self/fd/%d/%s", with.give(folder), socketName)
	with.add("--vhost-socket", inside, "--class", a.relayed.Device.Class)
	if a.relayed.Mode != capture.None {
		with.add("--records")
	}
	g.listens = false
	return nil
}

// makeTap creates the tap.
func (g *guestSource) makeTap(s *Supervisor, a *attachment) error {
	if g.tap != nil {
		return nil
	}
	tap, err := s.Node.MakeTap(&a.relayed.Attachment)
	if err != nil {
		return fmt.Errorf("make the relay's device: %w", err)
	}
	if err := vm.SendPast(tap.Name, a.relayed.PortName()); err != nil {
		return errors.Join(err, tap.Close())
	}
	g.tap = tap
	return nil
}

// makeFolder creates the folder in which the relay creates its socket. It first removes that of a killed relay.
func (g *guestSource) makeFolder(user User) (*os.File, error) {
	path := g.folder()
	err := os.RemoveAll(path)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err == nil && user.GID != uint32(os.Getgid()) {
		err = os.Chown(path, os.Getuid(), int(user.GID))
	}
	if err == nil {
		err = os.Chmod(path, 0o730)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for the socket of vhost-user: %w", err)
	}
	descriptor, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(descriptor), path), nil
}

// observe publishes the socket when the relay listens.
func (g *guestSource) observe(s *Supervisor, a *attachment) (taken bool) {
	if a.process == nil || !a.process.running() {
		return false
	}
	if !g.listens {
		g.listen(s, a)
	}
	return a.counters.taken()
}

func (g *guestSource) listen(s *Supervisor, a *attachment) {
	err := g.publish(a.relayed.Device.Owner)
	if errors.Is(err, fs.ErrNotExist) {
		s.awaited = true // the relay does not listen yet
		return
	}
	if err != nil {
		a.log.Warn("the socket of vhost-user cannot be put where the virtual machine looks for it", "path", g.path, "error", err)
		_ = a.process.command.Process.Kill() // a later reconciliation starts another one
		return
	}
	g.listens = true
}

// publish moves the socket to path. It fails with fs.ErrNotExist until the relay listens.
func (g *guestSource) publish(owner int) error {
	from := filepath.Join(g.folder(), socketName)
	const sameGroup = -1
	if err := os.Lchown(from, owner, sameGroup); err != nil {
		return err
	}
	if err := os.Rename(from, g.path); err != nil {
		return err
	}
	return os.Remove(g.folder())
}

func (g *guestSource) isReady() bool { return g.listens }

func (g *guestSource) holds(*Supervisor, *attachment) bool { return true }

func (g *guestSource) frames(a *attachment, counted map[string]uint64) {
	counted["bypassed"] = a.counters.value(atBypassed)
	counted["back-handed"], counted["back-dropped"] = a.counters.value(atBackHanded), a.counters.value(atBackDropped)
}

// stop removes the socket, so that no machine connects to a socket without a listener.
func (g *guestSource) stop() error {
	if err := os.Remove(g.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of vhost-user: %w", err)
	}
	return nil
}

func (g *guestSource) release() error {
	all := os.RemoveAll(g.folder())
	if g.link != nil {
		all = errors.Join(all, g.link.Close())
	}
	if g.tap != nil {
		all = errors.Join(all, g.tap.Close())
	}
	return all
}
