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

// errKtsndSilent is that ktsnd cannot be asked, which may be different soon.
var errKtsndSilent = errors.New("ktsnd does not answer")

// daemon is ktsnd; nil on a node without it.
type daemon struct {
	*control.Client
}

// dialDaemon connects to the node's ktsnd, if it shall have one.
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

// cause is what the kernel said.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// ended tells whether the error says that no ktsnd runs, which then has no endpoints either.
func ended(err error) bool {
	return errors.Is(err, errKtsndSilent) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
}

// cutOff tells whether the error says that ktsnd ended while it was asked.
func cutOff(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

func (d *daemon) close() {
	if d != nil {
		d.Close()
	}
}

// timed is the daemon as package overlay knows it: a nil interface for none.
func (d *daemon) timed() overlay.TimedLinks {
	if d == nil {
		return nil
	}
	return d
}

// addSocket has ktsnd listen where the pod's applications look for it. The folder is the pod's own; the runtime
// or its user mounts it into the pod.
func (d *daemon) addSocket(ctx context.Context, identity, path string) error {
	folder := filepath.Dir(path)
	_, err := os.Stat(folder)
	isMissing := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make a folder for the pod's socket: %w", err)
	}
	if isMissing { // whatever the umask of the runtime is: relays and applications run as other users
		if err := os.Chmod(folder, 0o755); err != nil {
			return fmt.Errorf("make a folder for the pod's socket: %w", err)
		}
	}
	fault.Point("socket-folder-made")
	return d.SocketAdd(ctx, identity, path)
}

// removeSocket undoes addSocket; daemon may be nil when no ktsnd runs, whose socket may then be left.
func (d *daemon) removeSocket(ctx context.Context, identity, path string) error {
	if d != nil {
		if err := d.SocketDel(ctx, identity); err != nil {
			return err
		}
	}
	for _, left := range []string{path, filepath.Dir(path)} {
		err := os.Remove(left)
		// What others put into the folder is theirs.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("remove the pod's socket: %w", err)
		}
	}
	return nil
}

// addEndpoint registers the attachment. This is the only place that does.
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

// gatesPatience is for a ktsnd that is asked for its gates beside other work.
const gatesPatience = time.Second

// GatedPriorities returns a bit for each priority whose gate the schedule of the node's ktsnd closes at times. They are all, and not
// known, when it cannot be asked.
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
