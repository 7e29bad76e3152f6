// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func addTunnel(t *testing.T, name string, vni int, group uint32) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.Group = name, group
	testlab.Must(t, netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attributes, VxlanId: vni, Port: 4789}))
	if !netdev.OffloadsChecksums(name) && group != overlay.LinkGroup {
		t.Fatalf("the kernel does not offload checksums of %s, and there is nothing to disable", name)
	}
}

// TestDisableChecksumOffload with tunnels that exist, that are added or recreated later, and where another program enables it.
func TestDisableChecksumOffload(t *testing.T) {
	node := topology.EnterTestNamespace(t, "node")
	addTunnel(t, "other", 7, 0)
	addTunnel(t, "tsnvx42", 42, overlay.LinkGroup)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- node.Do(func() error { return DisableChecksumOffload(ctx, slog.New(slog.DiscardHandler)) })
	}()
	awaitOff := func(name string) {
		t.Helper()
		testlab.Eventually(t, 20*time.Second, time.Millisecond, func() error {
			if netdev.OffloadsChecksums(name) {
				return errors.New("checksums of " + name + " are still offloaded")
			}
			return nil
		})
	}
	awaitOff("tsnvx42")
	addTunnel(t, "tsnvx43", 43, overlay.LinkGroup)
	awaitOff("tsnvx43")
	testlab.Must(t, netdev.SetFeature("tsnvx42", "tx-checksum-ip-generic", true))
	awaitOff("tsnvx42")
	link, err := netlink.LinkByName("tsnvx42")
	testlab.Must(t, err)
	testlab.Must(t, netlink.LinkDel(link))
	addTunnel(t, "tsnvx42", 42, overlay.LinkGroup)
	awaitOff("tsnvx42")
	if !netdev.OffloadsChecksums("other") {
		t.Error("a tunnel of another program was changed")
	}
	cancel()
	testlab.Must(t, <-ended)
}
