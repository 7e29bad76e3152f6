// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What linux/ethtool.h gives for features, which are bits; their places differ among kernels, their names do not.
const (
	featureStrings = 4
	stringBytes    = 32
	blockBits      = 32
	// maxFeatures is more than any kernel has: some 80 so far.
	maxFeatures = 512
)

// SetFeature turns a feature of an interface on or off, as `ethtool -K` does. One that the driver does not let be changed
// stays, without an error.
func SetFeature(name, feature string, on bool) error {
	names, err := features(name)
	if err != nil {
		return fmt.Errorf("list the features of %s: %w", name, err)
	}
	place := slices.Index(names, feature)
	if place < 0 {
		return fmt.Errorf("%s has no feature %s", name, feature)
	}
	// The command and the number of blocks, then of each block the bits that are meant, and their values.
	blocks := (len(names) + blockBits - 1) / blockBits
	request := make([]uint32, 2+2*blocks)
	request[0], request[1] = unix.ETHTOOL_SFEATURES, uint32(blocks)
	meant := request[2+place/blockBits*2:]
	meant[0] = 1 << (place % blockBits)
	if on {
		meant[1] = meant[0]
	}
	if err := Do(name, request); err != nil {
		return fmt.Errorf("set the feature %s of %s: %w", feature, name, err)
	}
	return nil
}

// features lists the kernel's names of all features, by their places.
func features(name string) ([]string, error) {
	// The command, which strings, and their number, which the kernel writes; then the strings.
	request := make([]uint32, 3+maxFeatures*stringBytes/4)
	request[0], request[1] = unix.ETHTOOL_GSTRINGS, featureStrings
	if err := Do(name, request); err != nil {
		return nil, err
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&request[3])), maxFeatures*stringBytes)
	var names []string
	for one := range slices.Chunk(text[:min(int(request[2]), maxFeatures)*stringBytes], stringBytes) {
		found, _, _ := bytes.Cut(one, []byte{0})
		names = append(names, string(found))
	}
	return names, nil
}
