// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
)

// wide is a subnet with room for many pods.
func (l *lab) wide(first bool) netip.Prefix {
	if first {
		return netip.MustParsePrefix("10.42.0.0/20")
	}
	return netip.MustParsePrefix("10.42.16.0/20")
}

// populate attaches so many pods, each with a network namespace of its own.
func (n *node) populate(t testing.TB, count int) {
	t.Helper()
	configs := list(t, n.config(nil))
	spaces := namespaces(t, count)
	inParallel(t, count, func(i int) error {
		at := &libcni.RuntimeConf{ContainerID: fmt.Sprintf("resident-%d", i), NetNS: spaces[i].Path(), IfName: podIf}
		_, err := n.runtime.AddNetworkList(context.Background(), configs, at)
		return err
	})
}

// namespaces makes network namespaces without threads inside; the end removes them.
func namespaces(t testing.TB, count int) []ns.NetNS {
	t.Helper()
	var all []ns.NetNS
	t.Cleanup(func() {
		for _, space := range all {
			space.Close() // an open one cannot be unmounted
			if err := testutils.UnmountNS(space); err != nil {
				t.Error(err)
			}
		}
	})
	for range count {
		space, err := testutils.NewNS()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, space)
	}
	return all
}

// inParallel does so many things, sixteen at once, and fails with the first error.
func inParallel(t testing.TB, count int, do func(i int) error) {
	t.Helper()
	slots := make(chan struct{}, 16)
	errs := make(chan error, count)
	var wait sync.WaitGroup
	for i := range count {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := do(i); err != nil {
				errs <- fmt.Errorf("%d: %w", i, err)
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}
