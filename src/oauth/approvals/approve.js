// Approving waits for a moment after the page appears or comes back into view, and after each press in that moment: a click
// that was meant for another window approves nothing, and neither does the next. Without this script the button works at once.
const approve = document.querySelector('button[data-waits]')
if (approve !== null) {
  let timer
  const wait = () => {
    enable(false)
    clearTimeout(timer)
    timer = setTimeout(enable, Number(approve.dataset.waits), true)
  }
  const enable = (isEnabled) => {
    approve.disabled = !isEnabled
    // Some browsers report no presses on a disabled button, so they fall through to the page.
    approve.style.pointerEvents = isEnabled ? '' : 'none'
  }
  const pressed = () => approve.disabled && wait()
  wait()
  addEventListener('focus', wait)
  addEventListener('pageshow', wait)
  document.addEventListener('visibilitychange', wait)
  document.addEventListener('pointerdown', pressed, true)
  document.addEventListener('keydown', pressed, true)
}

// In a window that the application opened: says that the user has decided, to its own origins only, and closes.
const decided = document.querySelector('[data-approval]')
if (decided !== null && window.opener !== null) {
  const { approval: id, state, origins } = decided.dataset
  for (const origin of JSON.parse(origins))
    window.opener.postMessage({ type: 'chatelaine:approval', id, state }, origin)
  window.close()
}
