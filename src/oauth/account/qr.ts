import { encode } from 'uqr'

/** Width of the quiet zone around the code, in modules (ISO/IEC 18004 §6.3.8). */
const QUIET = 4

/**
 * Draws a QR code with its quiet zone as SVG, at error correction level M. It is black on white in every colour scheme,
 * because scanners need that. The library's own SVG has neither a label nor crisp edges.
 */
export function qrSvg(text: string, label: string): string {
  const { data, size } = encode(text, { ecc: 'M', border: QUIET })
  const path = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  const escaped = label.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
  return `<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" role="img" aria-label="${escaped}" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="#fff"/><path d="${path}" fill="#000"/></svg>`
}
