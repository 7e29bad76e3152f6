// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"slices"
)

// protocolVersion is the "version" of every message of this protocol.
const protocolVersion = 1

// fields are those of a request besides its header. docs/internals/control-protocol has an example of each request.
type fields = map[string]any

// requestHeader opens every request.
type requestHeader struct {
	Version int    `json:"version"`
	Request string `json:"request"`
}

// replyHeader opens every reply. Error is set instead of Reply when the daemon refused.
type replyHeader struct {
	Version int
	Reply   string
	Error   *Error
}

// encodeRequest writes a request's header and the fields of its body into one object.
func encodeRequest(request string, body any) ([]byte, error) {
	header, err := json.Marshal(requestHeader{protocolVersion, request})
	if err != nil {
		return nil, err
	}
	object, err := json.Marshal(body)
	if err != nil || string(object) == "{}" {
		return header, err
	}
	return slices.Concat(header[:len(header)-1], []byte{','}, object[1:]), nil
}

// decodeReply reads a reply of the wanted kind; a refusal is an *Error. Unknown fields are those of a newer
// ktsnd.
func decodeReply(data []byte, wanted string, into any) error {
	var header replyHeader
	if err := json.Unmarshal(data, &header); err != nil {
		return fmt.Errorf("decode %s reply: %w", wanted, err)
	}
	switch {
	case header.Version != protocolVersion:
		return fmt.Errorf("ktsnd speaks version %d of the control protocol, this program version %d",
			header.Version, protocolVersion)
	case header.Error != nil:
		return header.Error
	case header.Reply != wanted:
		return fmt.Errorf("ktsnd replied %q instead of %q", header.Reply, wanted)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s reply: %w", wanted, err)
	}
	return nil
}
