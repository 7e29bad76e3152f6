// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"

	"github.com/containernetworking/cni/pkg/types"
)

// validAttachments reads the runtime's list. Its absence must not be taken for an empty one.
func (r *request) validAttachments() (map[types.GCAttachment]bool, error) {
	var lists struct {
		Valid *[]types.GCAttachment `json:"cni.dev/valid-attachments"`
		// libcni passes the list under a second name, which the specification once had by mistake.
		Old *[]types.GCAttachment `json:"cni.dev/attachments"`
	}
	if err := json.Unmarshal(r.stdin, &lists); err != nil {
		return nil, invalid("cni.dev/valid-attachments: %v", err)
	}
	list := lists.Valid
	if list == nil {
		list = lists.Old
	}
	if list == nil {
		return nil, invalid("cni.dev/valid-attachments: missing; GC removes all that is not in this list")
	}
	valid := map[types.GCAttachment]bool{}
	for _, attachment := range *list {
		valid[attachment] = true
	}
	return valid, nil
}
