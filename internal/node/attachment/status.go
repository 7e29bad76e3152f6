// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Status reports whether Add can succeed, and if not, whether existing pods are affected as well.
func Status(ctx context.Context, s *Spec) error {
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	if s.IsOfLinks() {
		return s.statusOfLinks(ctx)
	}
	attached, err := store.countPorts(s.Network)
	if err != nil {
		return err
	}
	if err := s.checkNode(ctx, node, attached); err != nil {
		return unavailable(attached > 0, err)
	}
	if err := s.checkStateDir(); err != nil {
		return unavailable(false, err)
	}
	if err := s.IPAM.Run(ctx, "STATUS", &s.Record); err != nil {
		return unavailable(false, err)
	}
	return nil
}

func unavailable(impaired bool, err error) error {
	code, sentence := uint(CodeUnavailable), "pods cannot be attached: %s"
	if impaired {
		code, sentence = CodeImpaired, "pods cannot be attached, and attached pods suffer: %s"
	}
	return types.NewError(code, fmt.Sprintf(sentence, errortext.OneLine(err)), "")
}

// checkNode checks ktsnd, the network (its devices when there are attachments, else the uplink), and the clock.
func (s *Spec) checkNode(ctx context.Context, node *overlay.Node, attached int) error {
	daemon, err := dialDaemon(ctx, s.ControlSocket)
	if err != nil {
		return err
	}
	defer daemon.close()
	if attached == 0 {
		err = node.CheckUplink(ctx, &s.Overlay, daemon.timed())
	} else if err = daemon.checkEndpoints(ctx, attached); err == nil {
		err = errors.Join(node.CheckNetwork(ctx, &s.Overlay), node.CheckLostPorts(s.Network, &s.Overlay))
	}
	if err != nil {
		return err
	}
	return errors.Join(s.checkClock(ctx, daemon), s.checkEncryption())
}

// checkEndpoints detects a restarted ktsnd that does not know the attachments.
func (d *daemon) checkEndpoints(ctx context.Context, attached int) error {
	if d == nil {
		return nil
	}
	status, err := d.Status(ctx)
	if err == nil && status.Endpoints == 0 {
		err = fmt.Errorf("ktsnd was restarted and knows none of %d attached interfaces; run `ktsn node restore`", attached)
	}
	return err
}

// checkStateDir checks that the state directory is writable.
func (s *Spec) checkStateDir() error {
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	path := filepath.Join(s.StateDir, fmt.Sprintf("status.%d", os.Getpid()))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("write to the state directory: %w", err)
	}
	return os.Remove(path)
}

// checkClock fails if the network requires a good clock and the node's is not good enough. ktsn-agent reports to ktsnd how
// good it is; ktsnd increases the error bound with the age of the report.
func (s *Spec) checkClock(ctx context.Context, daemon *daemon) error {
	if !s.NeedsClock {
		return nil
	}
	clocks, err := daemon.NetworkClocks(ctx)
	if err != nil {
		return fmt.Errorf("read the node's clock from ktsnd: %w", err)
	}
	index := slices.IndexFunc(clocks, func(clock control.NetworkClock) bool { return clock.VNI == s.Overlay.VNI })
	if index < 0 {
		return coded(CodeClock, fmt.Errorf("the network requires a good clock, and ktsn-agent has not reported the node's clock for network %d yet; "+
			"see its log", s.Overlay.VNI))
	}
	if sentence := lostSentence(&clocks[index]); sentence != "" {
		return coded(CodeClock, fmt.Errorf("the node's clock is not good enough for the network: %s", sentence))
	}
	return nil
}

// lostSentence returns why a network's clock is lost, "" if it is not.
func lostSentence(clock *control.NetworkClock) string {
	switch {
	case !clock.Lost:
		return ""
	case clock.Reason != "":
		return clock.Reason
	case clock.Good:
		return fmt.Sprintf("ktsn-agent has not reported it for so long that its error may be larger than %v; check that ktsn-agent runs",
			time.Duration(clock.MaxErrorNs))
	}
	return fmt.Sprintf("its error may be larger than %v", time.Duration(clock.MaxErrorNs))
}
