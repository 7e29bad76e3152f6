// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// checkClock refuses where the node's clock is not good enough for a network that asks for a good one. ktsnd knows: ktsn-agent tells
// it, and what was told gets worse with time.
func (s *Spec) checkClock(ctx context.Context, daemon *daemon) error {
	if !s.NeedsClock {
		return nil
	}
	all, err := daemon.NetworkClocks(ctx)
	if refusal := (*control.Error)(nil); errors.As(err, &refusal) && refusal.Field == "request" {
		return coded(CodeClock, errors.New("the network asks for a good clock, and the node's ktsnd is of a release that knows nothing of clocks; upgrade ktsnd"))
	}
	if err != nil {
		return fmt.Errorf("ask ktsnd for the node's clock: %w", err)
	}
	at := slices.IndexFunc(all, func(one control.NetworkClock) bool { return one.VNI == s.Overlay.VNI })
	if at < 0 {
		return coded(CodeClock, fmt.Errorf("the network asks for a good clock, and nobody has said yet how good that of the node is for network %d; "+
			"ktsn-agent does, or its log says why not", s.Overlay.VNI))
	}
	if sentence := lostSentence(&all[at]); sentence != "" {
		return coded(CodeClock, fmt.Errorf("the node's clock is not good enough for the network: %s", sentence))
	}
	return nil
}

// lostSentence says why a network's clock is lost, "" where it is not.
func lostSentence(clock *control.NetworkClock) string {
	switch {
	case !clock.Lost:
		return ""
	case clock.Reason != "":
		return clock.Reason
	case clock.Good:
		return fmt.Sprintf("nobody has said for so long how it is that its error may be larger than %v; see that ktsn-agent runs",
			time.Duration(clock.MaxErrorNs))
	}
	return fmt.Sprintf("its error may be larger than %v", time.Duration(clock.MaxErrorNs))
}
