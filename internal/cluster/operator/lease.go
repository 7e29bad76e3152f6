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
	// renewDeadline is how long the leader tries to renew its lease; controller-runtime uses the same default.
	renewDeadline = 10 * time.Second
)

// newLease returns the lease under the operator's configured name, nil if it has none: then controller-runtime generates a name at each
// start. With a stable name a killed operator leads again as soon as its container restarts, without waiting for the lease to expire.
func newLease(options *Options, config *rest.Config) (resourcelock.Interface, error) {
	if options.Identity == "" {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: options.Identity}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("create the leader's lease: %w", err)
	}
	return lock, nil
}
