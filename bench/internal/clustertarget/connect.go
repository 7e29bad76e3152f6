// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// answerTimeout limits how long the cluster may take to answer.
const answerTimeout = 15 * time.Second

// Where identifies the cluster and its parts.
type Where struct {
	Kubeconfig string
	// Context is a context of the file; empty: its current one.
	Context string
	// Namespace is created for the bench, and removed.
	Namespace string
	// Network is the network of path tsn: NAME of a TSNNetwork, or NAMESPACE/NAME, where NAMESPACE is the chart's too,
	// or, without such a TSNNetwork, of a NetworkAttachmentDefinition.
	Network string
	// AnyClock also measures with clocks that are not good enough, and marks the results.
	AnyClock bool
	// Image contains tsnperf; empty: the image next to ktsnd's, or the operator's.
	Image string
}

// connection is a connection to a cluster.
type connection struct {
	Where
	config *rest.Config
	// core and authorization are the API groups that a bench uses.
	core, authorization rest.Interface
	// discovery has Services, which are found by their names.
	discovery rest.Interface
	// annotated: the network is a TSNNetwork, to which the operator attaches annotated pods.
	annotated bool
}

// connect reads the kubeconfig; it sends no request.
func connect(where Where) (*connection, error) {
	// The library writes to stderr what it also returns.
	klog.SetLogger(logr.Discard())
	if _, err := os.Stat(where.Kubeconfig); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: where.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: where.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %s", where.Kubeconfig, oneLine(err))
	}
	config.UserAgent = "ktsn-bench"
	c := &connection{Where: where, config: config}
	var errCore, errAuthorization, errDiscovery error
	c.core, errCore = clientOf(config, "/api", corev1.SchemeGroupVersion)
	c.authorization, errAuthorization = clientOf(config, "/apis", authorizationv1.SchemeGroupVersion)
	c.discovery, errDiscovery = clientOf(config, "/apis", discoveryv1.SchemeGroupVersion)
	if err := errors.Join(errCore, errAuthorization, errDiscovery); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %s", where.Kubeconfig, oneLine(err))
	}
	return c, nil
}

// objects are the kinds that a bench knows. The library's own list has all, and makes a program nearly twice as large.
var objects = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(authorizationv1.AddToScheme(scheme))
	utilruntime.Must(discoveryv1.AddToScheme(scheme))
	return scheme
}()

// parameters writes the options of a request.
var parameters = runtime.NewParameterCodec(objects)

func clientOf(config *rest.Config, path string, group schema.GroupVersion) (rest.Interface, error) {
	asking := rest.CopyConfig(config)
	asking.Timeout, asking.ContentType = answerTimeout, runtime.ContentTypeJSON
	asking.APIPath, asking.GroupVersion = path, &group
	asking.NegotiatedSerializer = serializer.NewCodecFactory(objects).WithoutConversion()
	return rest.RESTClientFor(asking)
}

// explain shortens an error of the cluster, or of the connection, to one line.
func (c *connection) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var unreachable *url.Error
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster at %s does not accept the credentials of %s; get new ones, or name another --context",
			doing, c.config.Host, c.Kubeconfig)
	case errors.As(err, &unreachable) || errors.As(err, &network):
		return fmt.Errorf("%s: the cluster at %s does not answer: %s; check --kubeconfig, --context and the way there", doing,
			c.config.Host, lastPart(err))
	}
	return fmt.Errorf("%s: %s", doing, oneLine(err))
}

// oneLine returns an error's text on one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// lastPart drops the request with which a network error begins.
func lastPart(err error) string {
	var unreachable *url.Error
	if errors.As(err, &unreachable) {
		return oneLine(unreachable.Err)
	}
	return oneLine(err)
}
