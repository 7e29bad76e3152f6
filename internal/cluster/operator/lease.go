// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName = "ktsn-operator"
	// renewDeadline is how long the leader tries to renew its lease, as controller-runtime has it.
	renewDeadline = 10 * time.Second
)

// leaseOf is the lease under the operator's own name, nil if it has none: then controller-runtime makes a name for each start. Under one name
// an operator that was killed leads again as soon as its container is started again, and nobody waits until the lease has run out.
func leaseOf(options *Options, config *rest.Config) (resourcelock.Interface, error) {
	if options.Identity == "" {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: options.Identity}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("prepare the lease of the leader: %w", err)
	}
	return lock, nil
}
