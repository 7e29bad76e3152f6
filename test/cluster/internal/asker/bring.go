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
	// Folder is where nodes have the asker, which is in no image.
	Folder = "/var/lib/ktsn-test-asker"
	// Program is the asker there.
	Program = Folder + "/asker"
	// Decided is how old a message is of which it is known whether it was answered: the asker's patience, and time to write it.
	Decided = 2500 * time.Millisecond
)

// Bring brings a program that asks to a node.
func Bring(ctx context.Context, to node.Place, program string) error {
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	_, err = node.Output(ctx, to, file, "sh", "-c", fmt.Sprintf("mkdir -p %[1]s && cat >%[2]s && chmod 755 %[2]s", Folder, Program))
	return errors.Join(err, file.Close())
}
