/** Returns whether http is safe for an address: within one computer. */
export const isLoopback = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\]|.*\.localhost)$/.test(hostname)
