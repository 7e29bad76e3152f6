// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// errKtsndSilent: ktsnd cannot be reached. Try again later.
var errKtsndSilent = errors.New("ktsnd does not answer")

// daemon is a connection to ktsnd; nil on a node without ktsnd.
type daemon struct {
	*control.Client
}

// dialDaemon connects to the node's ktsnd; it returns nil if the node has none.
func dialDaemon(ctx context.Context, controlSocket string) (*daemon, error) {
	if controlSocket == "" {
		return nil, nil
	}
	client, err := control.Dial(ctx, controlSocket)
	if err != nil {
		return nil, fmt.Errorf("%w on %s (%w); start it, or name its control socket in controlSocket", errKtsndSilent,
			controlSocket, cause(err))
	}
	return &daemon{client}, nil
}

// cause returns the kernel's error number, if there is one.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// ended reports whether no ktsnd runs. There are no endpoints then either.
func ended(err error) bool {
	return errors.Is(err, errKtsndSilent) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
}

// cutOff reports whether ktsnd ended during a request.
func cutOff(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

func (d *daemon) close() {
	if d != nil {
		d.Close()
	}
}

// timed returns the daemon as an interface that is nil for no daemon.
func (d *daemon) timed() overlay.TimedLinks {
	if d == nil {
		return nil
	}
	return d
}

// addSocket makes ktsnd listen where the pod's applications look for it. The folder belongs to the pod; the runtime or
// its user mounts it into the pod.
func (d *daemon) addSocket(ctx context.Context, identity, path string) error {
	folder := filepath.Dir(path)
	_, err := os.Stat(folder)
	isMissing := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make a folder for the pod's socket: %w", err)
	}
	if isMissing { // independent of the runtime's umask: relays and applications run as other users
		if err := os.Chmod(folder, 0o755); err != nil {
			return fmt.Errorf("make a folder for the pod's socket: %w", err)
		}
	}
	fault.Point("socket-folder-made")
	return d.SocketAdd(ctx, identity, path)
}

// removeSocket undoes addSocket. daemon is nil when no ktsnd runs; its socket may still exist.
func (d *daemon) removeSocket(ctx context.Context, identity, path string) error {
	if d != nil {
		if err := d.SocketDel(ctx, identity); err != nil {
			return err
		}
	}
	for _, left := range []string{path, filepath.Dir(path)} {
		err := os.Remove(left)
		// Files of others in the folder stay.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("remove the pod's socket: %w", err)
		}
	}
	return nil
}

// addEndpoint registers the attachment. All registrations go through it.
func (d *daemon) addEndpoint(ctx context.Context, r *Record) error {
	return d.EndpointAdd(ctx, control.Endpoint{
		Identity:  r.Identity,
		Interface: r.Interface,
		Netns:     r.Netns,
		VNI:       r.VNI,
		Bridge:    r.Bridge,
		Sources:   r.Sources,
		Grants:    r.Grants,
		Receive:   r.Receive.Rings,
	})
}

// gatesPatience limits the wait for ktsnd's gates, which are requested among other work.
const gatesPatience = time.Second

// GatedPriorities returns a bit for each priority whose gate the schedule of the node's ktsnd closes at times. If ktsnd
// does not answer, it returns all priorities and false.
func GatedPriorities(controlSocket string) (gated uint64, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), gatesPatience)
	defer cancel()
	daemon, err := dialDaemon(ctx, controlSocket)
	if err != nil {
		return capture.AllGated, false
	}
	defer daemon.close()
	return daemon.gatedPriorities(ctx)
}

func (d *daemon) gatedPriorities(ctx context.Context) (gated uint64, known bool) {
	if d == nil {
		return capture.AllGated, false
	}
	status, errStatus := d.Status(ctx)
	schedule, errSchedule := d.Schedule(ctx)
	if errStatus != nil || errSchedule != nil {
		return capture.AllGated, false
	}
	return control.GatedPriorities(status, schedule), true
}
