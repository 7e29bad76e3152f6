// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// short reports whether to skip what takes long waits.
func short() bool { return os.Getenv("KTSN_FEDERATION_SHORT") == "1" }

func (p *place) node(ctx context.Context, name string) (*corev1.Node, error) {
	return p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// onFirst runs a command on the first machine of a place.
func (p *place) onFirst(ctx context.Context, command ...string) (string, error) {
	return node.Output(ctx, p.Place(p.ControlPlane().Name), nil, command...)
}

// ping pings the first machine of another place once.
func (p *place) ping(ctx context.Context, other *place, options ...string) error {
	arguments := append([]string{"ping", "-c", "1", "-W", "1"}, options...)
	_, err := p.onFirst(ctx, append(arguments, other.ControlPlane().Address.String())...)
	return err
}

var pingTime = regexp.MustCompile(`time=([0-9.]+) ms`)

// fastest returns the shortest of a few round-trip times.
func (p *place) fastest(ctx context.Context, t *testing.T, other *place) time.Duration {
	t.Helper()
	output, err := p.onFirst(ctx, "ping", "-c", "5", "-i", "0.2", other.ControlPlane().Address.String())
	if err != nil {
		t.Fatal(err)
	}
	least := time.Hour
	for _, match := range pingTime.FindAllStringSubmatch(output, -1) {
		milliseconds, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Duration(milliseconds*float64(time.Millisecond)))
	}
	return least
}

func TestPlacesReachEachOther(t *testing.T) {
	ctx := needFederation(t)
	all := append([]*place{hub}, members...)
	for _, from := range all {
		for _, to := range all {
			if from.Subnet.Overlaps(to.Subnet) != (from == to) {
				t.Errorf("%s has %s, and %s has %s", from.Name, from.Subnet, to.Name, to.Subnet)
			}
			if from == to {
				continue
			}
			if err := from.ping(ctx, to); err != nil {
				t.Errorf("%s does not reach %s: %v", from.Name, to.Name, err)
			}
		}
	}
}

func TestWANDelayAndMTU(t *testing.T) {
	ctx := needFederation(t)
	near, far := members[0], members[len(members)-1]
	const (
		delay  = 15 * time.Millisecond
		mtu    = 1400
		header = 28 // of IPv4 and ICMP
	)
	t.Setenv("KTSN_CLUSTER_PROGRAM", testlab.Program(t, "ktsn-cluster"))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := hub.SetDelay(ctx, far.Name, 0); err != nil {
			t.Error(err)
		}
		if err := hub.SetMTU(ctx, far.Name, 1500); err != nil {
			t.Error(err)
		}
		// Nodes cache a path MTU for ten minutes.
		for _, member := range members {
			if _, err := member.onFirst(ctx, "ip", "route", "flush", "cache"); err != nil {
				t.Error(err)
			}
		}
	})
	if err := hub.SetDelay(ctx, far.Name, delay); err != nil {
		t.Fatal(err)
	}
	if err := hub.SetMTU(ctx, far.Name, mtu); err != nil {
		t.Fatal(err)
	}
	if got := near.fastest(ctx, t, far); got < 2*delay || got > 4*delay {
		t.Errorf("there and back takes %v, want a little more than %v", got, 2*delay)
	}
	for size, passes := range map[int]bool{mtu - header: true, mtu - header + 1: false} {
		if err := near.ping(ctx, far, "-M", "do", "-s", strconv.Itoa(size)); (err == nil) != passes {
			t.Errorf("a packet of %d bytes that must not be divided: %v", size+header, err)
		}
	}
	if err := hub.SetDelay(ctx, far.Name, 0); err != nil {
		t.Fatal(err)
	}
	if got := near.fastest(ctx, t, far); got > delay {
		t.Errorf("without a delay there and back takes %v", got)
	}
}
