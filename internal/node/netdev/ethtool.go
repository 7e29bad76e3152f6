// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ifreq is struct ifreq of linux/if.h with the address of a command's structure.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Ethtool runs a command of linux/ethtool.h; those that only read need no privileges. The structure consists of words of 32 bits, the
// first of which is the command; the kernel writes the others.
func Ethtool(name string, structure []uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&structure[0])
	request := ifreq{data: unsafe.Pointer(&structure[0])}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// OffloadsChecksums reports whether the kernel leaves transmit checksums of an interface to the hardware; false if there is none of this
// name.
func OffloadsChecksums(name string) bool {
	value := []uint32{unix.ETHTOOL_GTXCSUM, 0}
	return Ethtool(name, value) == nil && value[1] != 0
}

// DisableChecksumOffload disables the offload of transmit checksums, and thereby of segmentation.
func DisableChecksumOffload(name string) error {
	if err := Ethtool(name, []uint32{unix.ETHTOOL_STXCSUM, 0}); err != nil {
		return fmt.Errorf("disable checksum offload of %s: %w", name, err)
	}
	return nil
}

// Constants of linux/ethtool.h for features. Features are bits whose positions, unlike their names, differ among kernels.
const (
	featureStrings = 4
	stringBytes    = 32
	blockBits      = 32
	// maxFeatures is more than the some 80 features of current kernels.
	maxFeatures = 512
)

// SetFeature turns a feature of an interface on or off, as `ethtool -K` does. It returns no error if the driver does not allow the
// change.
func SetFeature(name, feature string, on bool) error {
	names, err := features(name)
	if err != nil {
		return fmt.Errorf("list the features of %s: %w", name, err)
	}
	place := slices.Index(names, feature)
	if place < 0 {
		return fmt.Errorf("%s has no feature %s", name, feature)
	}
	// The command and the number of blocks, then for each block the mask of the bits to change and their values.
	blocks := (len(names) + blockBits - 1) / blockBits
	request := make([]uint32, 2+2*blocks)
	request[0], request[1] = unix.ETHTOOL_SFEATURES, uint32(blocks)
	block := request[2+place/blockBits*2:]
	block[0] = 1 << (place % blockBits)
	if on {
		block[1] = block[0]
	}
	if err := Ethtool(name, request); err != nil {
		return fmt.Errorf("set the feature %s of %s: %w", feature, name, err)
	}
	return nil
}

// features returns the kernel's names of all features, by their positions.
func features(name string) ([]string, error) {
	// The command, the set of strings, and their number, which the kernel writes; then the strings.
	request := make([]uint32, 3+maxFeatures*stringBytes/4)
	request[0], request[1] = unix.ETHTOOL_GSTRINGS, featureStrings
	if err := Ethtool(name, request); err != nil {
		return nil, err
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&request[3])), maxFeatures*stringBytes)
	var names []string
	for raw := range slices.Chunk(text[:min(int(request[2]), maxFeatures)*stringBytes], stringBytes) {
		feature, _, _ := bytes.Cut(raw, []byte{0})
		names = append(names, string(feature))
	}
	return names, nil
}

// getChannels is ETHTOOL_GCHANNELS of linux/ethtool.h. The others are offsets in its structure, in words of 32 bits.
const (
	getChannels      = 0x3c
	channelsTx       = 6
	channelsCombined = 8
	channelsNumbers  = 9
)

// TransmitQueues returns the number of an interface's transmit queues in use. It fails with unix.EOPNOTSUPP if the driver has no
// channels, so that its queues cannot be set.
func TransmitQueues(name string) (int, error) {
	channels := make([]uint32, channelsNumbers)
	channels[0] = getChannels
	if err := Ethtool(name, channels); err != nil {
		return 0, err
	}
	return int(channels[channelsTx] + channels[channelsCombined]), nil
}
