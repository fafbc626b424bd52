// Approving waits for a moment after the page appears or comes back into view: a click that was meant for another window
// approves nothing. Without this script the button works at once.
const approve = document.querySelector('button[data-waits]')
if (approve !== null) {
  let timer
  const wait = () => {
    approve.disabled = true
    clearTimeout(timer)
    timer = setTimeout(() => (approve.disabled = false), Number(approve.dataset.waits))
  }
  wait()
  addEventListener('focus', wait)
  addEventListener('pageshow', wait)
  document.addEventListener('visibilitychange', wait)
}

// In a window that the application opened: says that the user has decided, to its own origins only, and closes.
const decided = document.querySelector('[data-approval]')
if (decided !== null && window.opener !== null) {
  const { approval: id, state, origins } = decided.dataset
  for (const origin of JSON.parse(origins))
    window.opener.postMessage({ type: 'chatelaine:approval', id, state }, origin)
  window.close()
}
