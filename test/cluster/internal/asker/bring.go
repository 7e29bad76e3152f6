// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const (
	// Folder is the asker's folder on nodes; no image contains it.
	Folder = "/var/lib/ktsn-test-asker"
	// Program is the path of the asker on nodes.
	Program = Folder + "/asker"
	// Decided is the age at which a request is known to be answered or lost: the asker's patience, and time to write
	// it.
	Decided = 2500 * time.Millisecond
)

// Bring copies a program to a node.
func Bring(ctx context.Context, to node.Place, program string) error {
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	_, err = node.Output(ctx, to, file, "sh", "-c", fmt.Sprintf("mkdir -p %[1]s && cat >%[2]s && chmod 755 %[2]s", Folder, Program))
	return errors.Join(err, file.Close())
}
