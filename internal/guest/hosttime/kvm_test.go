// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newKVM is a machine whose clocks of class ptp have these names. The host has this machine's clock.
func newKVM(t *testing.T, aheadOfUTC time.Duration, names ...string) *KVM {
	t.Helper()
	k := &KVM{Sys: t.TempDir(), Dev: t.TempDir(), AheadOfUTC: aheadOfUTC, Limit: DefaultKVMLimit,
		read: func(*os.File) (int64, error) { return read(unix.CLOCK_REALTIME), nil }}
	for i, name := range names {
		device := "ptp" + string(rune('0'+i))
		folder := filepath.Join(k.Sys, "class/ptp", device)
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "clock_name"), []byte(name+"\n"), 0o644),
			os.WriteFile(filepath.Join(k.Dev, device), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func TestTheHostsTimeIsReadFromTheClockOfKVM(t *testing.T) {
	child := &program{}
	f := newFollower(newKVM(t, 37*time.Second, "igb", kvmName).Open, child)
	for range 3 {
		f.ask()
		if err := f.tell(); err != nil {
			t.Fatal(err)
		}
	}
	last := child.clocks[len(child.clocks)-1]
	// The host's CLOCK_REALTIME is this machine's here, and its CLOCK_TAI is set to 37 s ahead.
	if wrong := last.AheadNs[2] - (37 * time.Second).Nanoseconds(); last.UntilNs == 0 || wrong > int64(last.BoundNs) || wrong < -int64(last.BoundNs) {
		t.Errorf("it is wrong by %d: %+v", wrong, last)
	}
	if f.host.AheadOfUTC != (37*time.Second).Nanoseconds() || f.host.DriftPPB != slewPPB {
		t.Errorf("the host says %+v", f.host)
	}
}

func TestNothingIsSentByAClockOfKVMThatIsNotKnownWithinTheLimit(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: time.Millisecond, 3 * time.Second: 3 * time.Second} {
		if got := NewKVM(37*time.Second, limit).Limit; got != want {
			t.Errorf("of %v the limit is %v, want %v", limit, got, want)
		}
	}
	kvm, child := newKVM(t, 37*time.Second, kvmName), &program{}
	for limit, sends := range map[time.Duration]bool{time.Nanosecond: false, time.Hour: true} {
		kvm.Limit = limit
		f := newFollower(kvm.Open, child)
		f.ask()
		if err := f.tell(); err != nil {
			t.Fatal(err)
		}
		if last := child.clocks[len(child.clocks)-1]; (last.UntilNs != 0) != sends {
			t.Errorf("with a limit of %v it says %+v", limit, last)
		}
	}
}

func TestAClockOfKVMThatDoesNotTellTheTimeIsNamed(t *testing.T) {
	broken := newKVM(t, 37*time.Second, kvmName)
	broken.read = func(*os.File) (int64, error) { return 0, unix.EOPNOTSUPP }
	for name, test := range map[string]struct {
		kvm      *KVM
		sentence string
	}{
		"no such clock":                 {newKVM(t, 37*time.Second, "igb"), "this machine has no clock \"KVM virtual PTP\""},
		"nobody knows CLOCK_TAI":        {newKVM(t, 0, kvmName), "give --tai-offset"},
		"a kernel that cannot any more": {broken, "read the host's clock: operation not supported"},
	} {
		f := newFollower(test.kvm.Open)
		if err := f.exchange(); err == nil || !strings.Contains(err.Error(), test.sentence) {
			t.Errorf("%s: %v, want %s", name, err, test.sentence)
		}
	}
}

func TestTheVirtioPortGoesBeforeTheClockOfKVM(t *testing.T) {
	port, host := net.Pipe()
	defer host.Close()
	absent := func() (Port, error) { return nil, errNoPort }
	kvm := newKVM(t, 37*time.Second, kvmName)
	for name, test := range map[string]struct {
		open     func() (Port, error)
		kvm      *KVM
		isPort   bool
		sentence string
	}{
		"both":          {func() (Port, error) { return port, nil }, kvm, true, ""},
		"no port":       {absent, kvm, false, ""},
		"a port in use": {func() (Port, error) { return nil, unix.EBUSY }, kvm, false, "device or resource busy"},
		"none":          {absent, newKVM(t, 37*time.Second), false, "this machine has no virtio port\nthis machine has no clock"},
	} {
		got, err := either(test.open, test.kvm)
		if (err == nil) != (test.sentence == "") || (err != nil && !strings.Contains(err.Error(), test.sentence)) || (err == nil && (got == port) != test.isPort) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
