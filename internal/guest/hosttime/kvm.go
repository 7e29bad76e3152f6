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

// kvmName is clock_name of the clock that ptp_kvm makes (drivers/ptp/ptp_kvm_common.c of Linux).
const kvmName = "KVM virtual PTP"

// KVM is the host's CLOCK_REALTIME as the kernel of a guest on KVM shows it (ptp_kvm).
type KVM struct {
	// Sys and Dev are the folders of the kernel's files and of devices.
	Sys, Dev string
	// AheadOfUTC is CLOCK_TAI less CLOCK_REALTIME of the host, which the clock does not tell.
	AheadOfUTC time.Duration
	// Limit is the error above which the guest sends nothing with a transmit time: the host has nobody who would say it.
	Limit time.Duration
	// read reads the clock of an open device.
	read func(device *os.File) (int64, error)
}

// DefaultKVMLimit is more than ten times what the assumed drift and slewing add until the clock is read again.
const DefaultKVMLimit = time.Millisecond

// NewKVM is that of this machine. Without an offset the host's is that of this machine's kernel, without a limit it is the default.
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

// Check says why the clock does not tell the host's CLOCK_TAI.
func (k *KVM) Check() error {
	if k.AheadOfUTC == 0 {
		return errors.New("ptp_kvm tells the host's CLOCK_REALTIME, and this machine's kernel does not know how far CLOCK_TAI is ahead; give --tai-offset, exactly " +
			"as in the host's kernel: 37 since 2017 where somebody has set it")
	}
	return nil
}

// Open opens it as a port whose host answers at once.
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
	return &kvmPort{of: k, device: device}, nil
}

// find finds the device.
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

// kvmPort answers requests itself.
type kvmPort struct {
	of     *KVM
	device *os.File
	bytes.Buffer
}

// Write takes a request, and reads the clock.
func (p *kvmPort) Write(message []byte) (int, error) {
	var request Request
	if err := binary.Read(bytes.NewReader(message), binary.LittleEndian, &request); err != nil {
		return 0, err
	}
	now, err := p.of.read(p.device)
	if err != nil {
		return 0, fmt.Errorf("read the host's clock: %w", err)
	}
	now += p.of.AheadOfUTC.Nanoseconds()
	// The host does not report how its clock is being adjusted.
	reply := Reply{
		Magic: replyMagic, Number: request.Number, ReceivedTAI: now, RepliedTAI: now, AheadOfUTC: p.of.AheadOfUTC.Nanoseconds(), DriftPPB: slewPPB,
		LimitNs: p.of.Limit.Nanoseconds(),
	}
	return len(message), write(&p.Buffer, &reply)
}

func (p *kvmPort) Close() error { return p.device.Close() }

// SetDeadline has nothing to do: nothing is waited for.
func (*kvmPort) SetDeadline(time.Time) error { return nil }

// OpenEither opens the virtio port of that name, and where there is none the host's clock of KVM.
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
