// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// ClassBy is the source of the class of a virtual machine's frame without a record. The values are those of enum
// ktsn_capture_class in datapath/capture/record.h.
type ClassBy uint16

// Sources of the class. A record always has it.
const (
	// ClassByRecord leaves frames without a record in class 0.
	ClassByRecord ClassBy = iota
	// ClassByPCP takes the priority code point of the frame's tag.
	ClassByPCP
	// ClassByQueue takes the number of the queue at which the frame left the machine.
	ClassByQueue
)

var classNames = []string{ClassByRecord: device.ClassRecord, ClassByPCP: device.ClassPCP, ClassByQueue: device.ClassQueue}

// ParseClassBy parses the value of an argument or annotation.
func ParseClassBy(text string) (ClassBy, error) {
	for by, name := range classNames {
		if text == name {
			return ClassBy(by), nil
		}
	}
	return ClassByRecord, fmt.Errorf(`%q does not say the class of a frame; give "record", "pcp" or "queue"`, text)
}

func (c ClassBy) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class by %d", uint16(c))
}

// MarshalText implements [encoding.TextMarshaler]; ParseClassBy parses the result.
func (c ClassBy) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *ClassBy) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClassBy(string(text))
	return err
}
