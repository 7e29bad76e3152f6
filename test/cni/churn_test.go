// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// runtimeConf returns the attachment of container i.
func runtimeConf(i int, netns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: fmt.Sprintf("many-%d", i), NetNS: netns, IfName: podIf}
}

func TestFiftyConcurrentAddsAndDels(t *testing.T) {
	const count = 50
	lab := newServedLab(t)
	before := lab.a.inventory(t)
	spaces := namespaces(t, count)
	configs := list(t, lab.a.config(nil))
	addresses := make([]string, count)
	inParallel(t, count, func(i int) error {
		answer, err := lab.a.runtime.AddNetworkList(context.Background(), configs, runtimeConf(i, spaces[i].Path()))
		if err != nil {
			return fmt.Errorf("ADD: %w", err)
		}
		result, err := current.GetResult(answer)
		if err == nil {
			addresses[i] = addressOf(result, true).String()
		}
		return err
	})
	taken := map[string]int{}
	for i, address := range addresses {
		if other, there := taken[address]; there {
			t.Errorf("%d and %d both have %s", i, other, address)
		}
		taken[address] = i
	}
	if endpoints, err := lab.a.client.Endpoints(t.Context()); err != nil || len(endpoints) != count {
		t.Errorf("ktsnd has %d endpoints, %v", len(endpoints), err)
	}
	inParallel(t, count, func(i int) error {
		return lab.a.runtime.CheckNetworkList(context.Background(), configs, runtimeConf(i, spaces[i].Path()))
	})
	// Half of them are deleted while the others are added again, so that the last port is removed while the first one is added.
	inParallel(t, count, func(i int) error {
		at := runtimeConf(i, spaces[i].Path())
		if err := lab.a.runtime.DelNetworkList(context.Background(), configs, at); err != nil || i%2 == 0 {
			return err
		}
		if _, err := lab.a.runtime.AddNetworkList(context.Background(), configs, at); err != nil {
			return fmt.Errorf("second ADD: %w", err)
		}
		return lab.a.runtime.DelNetworkList(context.Background(), configs, at)
	})
	checkSame(t, "after all", before, lab.a.inventory(t))
}

func TestConcurrentFirstAddAndLastDel(t *testing.T) {
	lab := newLab(t)
	before := lab.a.inventory(t)
	configs := list(t, lab.a.config(nil))
	spaces := namespaces(t, 4)
	// Four containers are added and deleted independently, so bridge and tunnel are created and removed repeatedly.
	inParallel(t, len(spaces), func(i int) error {
		for range 12 {
			at := runtimeConf(i, spaces[i].Path())
			if _, err := lab.a.runtime.AddNetworkList(context.Background(), configs, at); err != nil {
				return fmt.Errorf("ADD: %w", err)
			}
			if err := lab.a.runtime.CheckNetworkList(context.Background(), configs, at); err != nil {
				return fmt.Errorf("CHECK: %w", err)
			}
			if err := lab.a.runtime.DelNetworkList(context.Background(), configs, at); err != nil {
				return fmt.Errorf("DEL: %w", err)
			}
		}
		return nil
	})
	checkSame(t, "after all", before, lab.a.inventory(t))
}

// TestManyAddsAndDelsLeaveNothing attaches and detaches 100 times, with KTSN_LONG=1 (make nightly) 500 times.
func TestManyAddsAndDelsLeaveNothing(t *testing.T) {
	t.Parallel()
	count := 100
	if testlab.Long() {
		count = 500
	}
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	open := openFiles(t, lab.a)
	configs := list(t, lab.a.config(nil))
	for i := range count {
		at := runtimeConf(i, pod.Path())
		if _, err := lab.a.runtime.AddNetworkList(t.Context(), configs, at); err != nil {
			t.Fatalf("ADD %d: %v", i, err)
		}
		if err := lab.a.runtime.DelNetworkList(t.Context(), configs, at); err != nil {
			t.Fatalf("DEL %d: %v", i, err)
		}
	}
	checkSame(t, "after all", before, lab.a.inventory(t, pod))
	if after := openFiles(t, lab.a); after != open {
		t.Errorf("ktsnd has %d files open, before it had %d", after, open)
	}
}

// openFiles counts the open files of the node's ktsnd.
func openFiles(t *testing.T, n *node) int {
	t.Helper()
	return len(glob(t, fmt.Sprintf("/proc/%d/fd/*", n.daemon.PID())))
}

// wide returns a subnet with room for many pods.
func (l *lab) wide(first bool) netip.Prefix {
	if first {
		return netip.MustParsePrefix("10.42.0.0/20")
	}
	return netip.MustParsePrefix("10.42.16.0/20")
}

// populate attaches count pods, each with its own network namespace.
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

// namespaces creates network namespaces without threads. The end of the test removes them.
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
		must(t, err)
		all = append(all, space)
	}
	return all
}

// inParallel calls a function count times, sixteen at once, and fails with the first error.
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
