// SPDX-License-Identifier: Apache-2.0

package unseen

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
)

// What the program does with packets is in test/netns, where there are programs that send some.

const guarded = "guarded"

// namespace has an interface.
func namespace(t *testing.T) *topology.Namespace {
	t.Helper()
	testenv.Root(t)
	if _, err := object.Open(objectFile); err != nil {
		testenv.Missing(t, "the program is not built; run `make build`")
	}
	id, err := topology.NewID()
	if err != nil {
		t.Fatal(err)
	}
	made, err := topology.NewNamespace(id.String() + "-unseen")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Destroy(); err != nil {
			t.Error(err)
		}
	})
	do(t, made, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = guarded
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "other"})
	})
	return made
}

func do(t *testing.T, where *topology.Namespace, work func() error) {
	t.Helper()
	if err := where.Do(work); err != nil {
		t.Fatal(err)
	}
}

func TestAnInterfaceHasTheProgramOnceItWasAttached(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		before, errBefore := Attached(guarded)
		if before {
			t.Error("it is there before it was attached")
		}
		// The second replaces the first.
		errAttach := errors.Join(Attach(guarded), Attach(guarded))
		after, errAfter := Attached(guarded)
		if !after {
			t.Error("it is not there after it was attached")
		}
		link, errLink := netlink.LinkByName(guarded)
		filters, errList := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
		if len(filters) != 1 {
			t.Errorf("there are %d filters, want 1", len(filters))
		}
		return errors.Join(errBefore, errAttach, errAfter, errLink, errList)
	})
	count, err := ReadIn(where.Path(), guarded)
	if err != nil || !count.Guarded || count.Datagrams != 0 || len(count.Programs) != 0 {
		t.Errorf("it counted %+v, %v", count, err)
	}
}

func TestAFilterOfAnotherIsNotTaken(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		link, errLink := netlink.LinkByName(guarded)
		loaded, errLoad := load()
		if err := errors.Join(errLink, errLoad, netlink.QdiscAdd(classAct(link))); err != nil {
			return err
		}
		defer loaded.Close()
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Priority: 5, Protocol: unix.ETH_P_ALL},
			Fd:          loaded.Programs[programName].FD(), Name: "another", DirectAction: true,
		})
	})
	if count, err := ReadIn(where.Path(), guarded); err != nil || count.Guarded {
		t.Errorf("read %+v, %v", count, err)
	}
	do(t, where, func() error { return Attach(guarded) })
	if count, err := ReadIn(where.Path(), guarded); err != nil || !count.Guarded {
		t.Errorf("beside it: %+v, %v", count, err)
	}
}

func TestAnInterfaceThatIsNotThereIsNamed(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		err := Attach("none")
		if err == nil || !strings.Contains(err.Error(), "leaving none early") {
			t.Errorf("it said %v", err)
		}
		if _, err := Attached("none"); !errors.Is(err, ErrGone) {
			t.Errorf("of whether it is there it said %v", err)
		}
		return nil
	})
}
