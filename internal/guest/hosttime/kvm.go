// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kvmName is the clock_name of ptp_kvm's clock (drivers/ptp/ptp_kvm_common.c of Linux).
const kvmName = "KVM virtual PTP"

// KVM is the host's CLOCK_REALTIME as the kernel of a guest on KVM shows it (ptp_kvm).
type KVM struct {
	// Sys and Dev are the paths of sysfs and of the devices.
	Sys, Dev string
	// AheadOfUTC is CLOCK_TAI - CLOCK_REALTIME of the host, which the clock does not provide.
	AheadOfUTC time.Duration
	// Limit is the error above which the guest sends nothing with a transmit time; ptp_kvm provides no limit of the host.
	Limit time.Duration
	// read reads the clock of an open device.
	read func(device *os.File) (int64, error)
}

// DefaultKVMLimit is more than ten times the growth of the bound, by drift and slewing, between two readings.
const DefaultKVMLimit = time.Millisecond

// NewKVM returns the clock of this machine. A zero offset uses that of this machine's kernel, a zero limit the default.
func NewKVM(aheadOfUTC, limit time.Duration) *KVM {
	if aheadOfUTC == 0 {
		aheadOfUTC = time.Duration(aheadOf(unix.CLOCK_TAI, unix.CLOCK_REALTIME))
	}
	return &KVM{Sys: "/sys", Dev: "/dev", AheadOfUTC: aheadOfUTC, Limit: cmp.Or(limit, DefaultKVMLimit), read: readDevice}
}

// readDevice reads the clock of a device of class ptp; how its number follows from the descriptor stands in
// Documentation/driver-api/ptp.rst of Linux.
func readDevice(device *os.File) (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^device.Fd()<<3|3), &now); err != nil {
		return 0, err
	}
	return now.Nano(), nil
}

// Check returns an error if the host's CLOCK_TAI cannot be computed from the clock.
func (k *KVM) Check() error {
	if k.AheadOfUTC == 0 {
		return errors.New("ptp_kvm tells the host's CLOCK_REALTIME, and this machine's kernel does not know how far CLOCK_TAI is ahead; give --tai-offset, exactly " +
			"as in the host's kernel: 37 since 2017 where somebody has set it")
	}
	return nil
}

// Open returns a Port that reads the clock.
func (k *KVM) Open() (Port, error) {
	path, err := k.find()
	if err != nil {
		return nil, err
	}
	if err := k.Check(); err != nil {
		return nil, err
	}
	device, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return &kvmPort{clock: k, device: device}, nil
}

// find returns the path of the device.
func (k *KVM) find() (string, error) {
	folders, err := filepath.Glob(filepath.Join(k.Sys, "class", "ptp", "ptp*"))
	if err != nil {
		return "", err
	}
	for _, folder := range folders {
		name, err := os.ReadFile(filepath.Join(folder, "clock_name"))
		if err == nil && strings.TrimSpace(string(name)) == kvmName {
			return filepath.Join(k.Dev, filepath.Base(folder)), nil
		}
	}
	return "", fmt.Errorf("this machine has no clock %q: it is not on KVM, or its kernel lacks CONFIG_PTP_1588_CLOCK_KVM", kvmName)
}

// kvmPort answers requests from the clock.
type kvmPort struct {
	clock  *KVM
	device *os.File
	bytes.Buffer
}

// Write receives a request and buffers the reply.
func (p *kvmPort) Write(message []byte) (int, error) {
	var request Request
	if err := binary.Read(bytes.NewReader(message), binary.LittleEndian, &request); err != nil {
		return 0, err
	}
	now, err := p.clock.read(p.device)
	if err != nil {
		return 0, fmt.Errorf("read the host's clock: %w", err)
	}
	now += p.clock.AheadOfUTC.Nanoseconds()
	// The host does not report how its clock is being adjusted.
	reply := Reply{
		Magic: replyMagic, Number: request.Number, ReceivedTAI: now, RepliedTAI: now, AheadOfUTC: p.clock.AheadOfUTC.Nanoseconds(), DriftPPB: slewPPB,
		LimitNs: p.clock.Limit.Nanoseconds(),
	}
	return len(message), write(&p.Buffer, &reply)
}

func (p *kvmPort) Close() error { return p.device.Close() }

// SetDeadline does nothing, because reads never block.
func (*kvmPort) SetDeadline(time.Time) error { return nil }

// OpenEither opens the virtio port of that name, or ptp_kvm if there is none.
func OpenEither(port string, kvm *KVM) (Port, error) {
	return either(func() (Port, error) { return OpenPort(port) }, kvm)
}

func either(openPort func() (Port, error), kvm *KVM) (Port, error) {
	opened, err := openPort()
	if err == nil || !errors.Is(err, errNoPort) {
		return opened, err
	}
	opened, errKVM := kvm.Open()
	if errKVM != nil {
		return nil, errors.Join(err, errKVM)
	}
	return opened, nil
}
