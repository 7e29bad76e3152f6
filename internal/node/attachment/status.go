// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// status tells whether ADD can be served, and if not, whether pods that were attached before suffer as well.
func status(ctx context.Context, r *request) error {
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	if r.ofLinks() {
		return r.statusOfLinks(ctx)
	}
	attached, err := records.countPorts(r.Standard.Name)
	if err != nil {
		return err
	}
	if err := r.checkNode(ctx, node, attached); err != nil {
		return unavailable(attached > 0, err)
	}
	if err := r.checkStateDir(); err != nil {
		return unavailable(false, err)
	}
	if err := r.ipam(ctx, "STATUS"); err != nil && !unsupported(err) {
		return unavailable(false, err)
	}
	return nil
}

func unavailable(impaired bool, err error) error {
	code, sentence := uint(CodeUnavailable), "pods cannot be attached: %s"
	if impaired {
		code, sentence = CodeImpaired, "pods cannot be attached, and those that are suffer: %s"
	}
	return types.NewError(code, fmt.Sprintf(sentence, oneLine(err)), "")
}

// checkNode looks at ktsnd, at the network (its devices when there are attachments, else what they would be made from), and at the
// clock.
func (r *request) checkNode(ctx context.Context, node *overlay.Node, attached int) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil {
		return err
	}
	defer daemon.close()
	if attached == 0 {
		err = node.CheckUplink(ctx, &r.Overlay, daemon.timed())
	} else if err = daemon.checkEndpoints(ctx, attached); err == nil {
		err = node.CheckNetwork(ctx, &r.Overlay)
	}
	if err != nil {
		return err
	}
	return errors.Join(r.checkClock(ctx, daemon), r.checkEncryption())
}

// checkEndpoints finds a ktsnd that was started anew and that nobody told of the attachments.
func (d *daemon) checkEndpoints(ctx context.Context, attached int) error {
	if d == nil {
		return nil
	}
	said, err := d.Status(ctx)
	if err == nil && said.Endpoints == 0 {
		err = fmt.Errorf("ktsnd was started anew and knows none of %d attached interfaces; run `ktsn node restore`", attached)
	}
	return err
}

// checkStateDir tries to write.
func (r *request) checkStateDir() error {
	if err := os.MkdirAll(r.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	path := filepath.Join(r.StateDir, fmt.Sprintf("status.%d", os.Getpid()))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("write to the state directory: %w", err)
	}
	return os.Remove(path)
}
